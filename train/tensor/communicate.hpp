// A pair of operations over a group that are each other's gradients, as one step of autograd.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <functional>

namespace kolo::train {

using TensorOperation = std::function<at::Tensor(const at::Tensor&)>;

/// What `forward` makes of `x`; `backward` makes the gradient below of the gradient above. Neither is seen by
/// autograd. backward() with create_graph throws InvalidArgumentError.
at::Tensor communicate(const at::Tensor& x, TensorOperation forward, TensorOperation backward);

/// Throws InvalidArgumentError in a backward() with create_graph, naming what has no second derivative.
void refuse_second_derivative(const char* what);

}  // namespace kolo::train
