// Collectives of tensors along a dimension, as autograd does not see them, and pairs of them as it does.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

using Lengths = std::vector<std::int64_t>;

// All are collective, and return contiguous tensors. Where the shape is not that of the lengths they throw
// InvalidArgumentError, before any byte moves.

/// The reduction of all ranks' tensors, which have one shape.
at::Tensor reduce_of_group(const at::Tensor& tensor, Communicator& communicator,
                           ReduceOp operation = ReduceOp::sum);

/// Each rank draws a random number (see draw()), and all get that of rank 0: alike whatever a rank has drawn
/// alone before, while generators in one state stay so.
std::uint64_t number_of_group(const at::Generator& generator, Communicator& communicator);

using TensorOperation = std::function<at::Tensor(const at::Tensor&)>;

/// Gives rank r its part along `split`, of split_lengths[r] elements, and lays what comes from rank s, which
/// has joined_lengths[s] elements along `joined`, beside each other along that dimension. The two dimensions
/// may be one: then split_lengths are what this rank sends and joined_lengths what it receives.
TensorOperation exchange(std::int64_t split, Lengths split_lengths, std::int64_t joined,
                         Lengths joined_lengths, Communicator group);

/// What `forward` makes of `x`; `backward` makes the gradient below of the gradient above. Neither is seen by
/// autograd. backward() with create_graph throws InvalidArgumentError.
at::Tensor communicate(const at::Tensor& x, TensorOperation forward, TensorOperation backward);

/// Throws InvalidArgumentError in a backward() with create_graph, naming what has no second derivative.
void refuse_second_derivative(const char* what);

}  // namespace kolo::train
