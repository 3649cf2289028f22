// Functions of tensors over the ranks of a group, with their gradients.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// @file
///
/// Sources: M. Shoeybi et al.: "Megatron-LM: Training
/// Multi-Billion Parameter Language Models Using Model Parallelism", 2019, section 3 (copy, reduce: its f and
/// g); V. Korthikanti et al.: "Reducing Activation Recomputation in Large Transformer Models", 2022,
/// section 4.2.2 (the sequence).
///
/// A tensor is *replicated* if all ranks hold the same, a *slice* if each holds its part along a dimension
/// (see slice_of()), *partial* if the ranks' tensors add up to it. The loss is one number, replicated, or
/// the sum of what the ranks compute of their slices.
///
///                       forward                          backward
///     copy_to_group     -                                all_reduce
///     reduce_from_group all_reduce                       -
///     split_to_group    takes the own slice              all_gather
///     gather_from_group all_gather                       takes the own slice
///     gather_sequence   all_gather                       reduce_scatter
///     scatter_sequence  reduce_scatter                   all_gather
///     all_to_all        all_to_all                       all_to_all
///
/// All are collective, in forward and (if `x` wants a gradient) in backward: all ranks of the group use them
/// in the same order. Element types are those of kolo; sums are made in that type. A group of one rank moves
/// nothing. They throw InvalidArgumentError for a tensor whose slice has not the length of this rank, and in
/// a backward() with create_graph; kolo's errors leave forward and backward(). Where `whole` is 0, all ranks'
/// slices are as long as this one; else the whole has so many elements along the dimension. Thread-safe as
/// the Communicator is.

/// Lets each rank use a replicated tensor for its part of the work. Replicated in, replicated out; gradients
/// that are partial, as each rank uses `x` for its part, become whole.
at::Tensor copy_to_group(const at::Tensor& x, const Communicator& group);
/// Sums over the ranks. Partial in, replicated out.
at::Tensor reduce_from_group(const at::Tensor& x, const Communicator& group);
/// Cuts a replicated tensor. Replicated in, this rank's slice along `dimension` out.
at::Tensor split_to_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group);
/// Puts slices together. Slice in, replicated out. What follows is done alike on all ranks.
at::Tensor gather_from_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                             std::int64_t whole = 0);
/// The same where rank r's slice has lengths[r] elements.
at::Tensor gather_from_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                             const std::vector<std::int64_t>& lengths);
/// Puts slices together, for divided work. Slice in, replicated out. What follows is a part of the work on
/// each rank, so gradients are partial.
at::Tensor gather_sequence(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                           std::int64_t whole = 0);
/// Sums over the ranks, and cuts the sum. Partial in, this rank's slice of the sum out.
at::Tensor scatter_sequence(const at::Tensor& x, std::int64_t dimension, const Communicator& group);
/// Changes the dimension along which a tensor is divided. A slice along `joined` in, of which each rank gets
/// its part along `split`: a slice along `split` out, whole along `joined`. `whole`: elements along `joined`.
/// The dimensions are two.
at::Tensor all_to_all(const at::Tensor& x, std::int64_t split, std::int64_t joined, const Communicator& group,
                      std::int64_t whole = 0);

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
/// heads and back. See S. Jacobs et al.: "DeepSpeed Ulysses: System Optimizations
/// for Enabling Training of Extreme Long Sequence Transformer Models", 2023, section 3. Heads are as many as
/// ranks or more. With tensors of B bytes a rank it sends 4 B (N - 1) / N in forward and as much in backward.
/// Holds the scores of its heads, [samples, heads / N, places, places].
at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const Communicator& group, const SequenceAttentionOptions& options = {});

/// Attention over a sequence divided among ranks, around which keys and values travel in blocks. A block
/// travels under the computation of the block before, and the softmax is put together block by block. See
/// H. Liu, M. Zaharia, P. Abbeel: "Ring Attention with Blockwise Transformers for
/// Near-Infinite Context", 2023, section 3. Any number of heads. With tensors of B bytes a rank it sends
/// 2 B (N - 1) in forward and 2 B (2 N - 1) in backward, which computes the scores anew. Holds the scores of
/// one block, [samples, heads, places / N, places / N]. Sums are made in float32, or float64; gradients
/// travel so. With `causal` a rank skips blocks that come later: the last rank computes longest.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const Communicator& group, const SequenceAttentionOptions& options = {});

/// What vocabulary_parallel_cross_entropy() counts and returns. Defaults are those of libtorch.
struct VocabularyParallelCrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< places with this target do not count
  bool mean =
      true;  ///< return the mean over the places that count, NaN if there is none; else a loss a place
};

/// What torch::nn::functional::cross_entropy() makes of all ranks' scores, without gathering them. See M.
/// Shoeybi et al. 2019, section 3. It sends three numbers a place, and in backward nothing. `scores` [...,
/// this rank's slice of the vocabulary], as a ColumnParallelLinear leaves them; `vocabulary` elements of all
/// slices; `targets` int64 [...], replicated. Returns a number, or with mean = false [...], replicated (0
/// where the target is ignored). Computes 16-bit scores in float32. Collective in forward only. Throws
/// InvalidArgumentError for shapes that do not fit and targets out of the vocabulary; kolo's errors.
at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& scores, const at::Tensor& targets,
                                             std::int64_t vocabulary, const Communicator& group,
                                             const VocabularyParallelCrossEntropyOptions& options = {});

}  // namespace kolo
