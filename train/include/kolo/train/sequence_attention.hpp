// Attention of sequences that are divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kolo/communicator.hpp"

namespace kolo {

/// Settings of all_to_all_attention() and ring_attention(). The same on all ranks.
struct SequenceAttentionOptions {
  bool causal = false;  ///< each place attends to itself and to the places before it only
  double scale = 0;     ///< factor of the scores q k^T; 0: the inverse root of a head's elements
  /// Places of all slices together, which slice_of() divides; 0: all slices are as long as this rank's.
  std::int64_t whole_sequence = 0;
};

/// @file
///
/// all_to_all_attention() and ring_attention() compute softmax(q k^T scale) v over the whole sequence, of
/// which each rank has a slice: `q`, `k`, `v` and what is returned are [samples, heads, this rank's places,
/// elements]. Parameters that are replicated, as those that make queries, keys and values, get the gradient
/// of this rank's places: DistributedDataParallel over the group makes their average, where each rank's loss
/// is the mean over its places.
///
/// Both are collective, in forward and backward. They throw InvalidArgumentError for shapes that do not fit
/// and in a backward() with create_graph, and the communicator's errors.

/// Attention over a sequence divided among ranks, which exchanges slices of the sequence for slices of the
/// heads and back. See sequence_attention.hpp, and S. Jacobs et al.: "DeepSpeed Ulysses: System Optimizations
/// for Enabling Training of Extreme Long Sequence Transformer Models", 2023, section 3. Heads are as many as
/// ranks or more. With tensors of B bytes a rank it sends 4 B (N - 1) / N in forward and as much in backward.
/// Holds the scores of its heads, [samples, heads / N, places, places].
at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const Communicator& group, const SequenceAttentionOptions& options = {});

/// Attention over a sequence divided among ranks, around which keys and values travel in blocks. A block
/// travels under the computation of the block before, and the softmax is put together block by block. See
/// sequence_attention.hpp, and H. Liu, M. Zaharia, P. Abbeel: "Ring Attention with Blockwise Transformers for
/// Near-Infinite Context", 2023, section 3. Any number of heads. With tensors of B bytes a rank it sends
/// 2 B (N - 1) in forward and 2 B (2 N - 1) in backward, which computes the scores anew. Holds the scores of
/// one block, [samples, heads, places / N, places / N]. Sums are made in float32, or float64; gradients
/// travel so. With `causal` a rank skips blocks that come later: the last rank computes longest.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const Communicator& group, const SequenceAttentionOptions& options = {});

}  // namespace kolo
