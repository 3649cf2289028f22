// Functions of autograd between the ranks of a group: what layers that are divided among ranks are made of.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

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

}  // namespace kolo
