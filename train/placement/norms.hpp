// Norms of gradients, the same on all ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

namespace kolo::train {

/// In float64, in an order that depends on the number of elements alone: libtorch's sums depend on vector
/// units and threads. Throws InvalidArgumentError for complex numbers and tensors that are not on the CPU.
double sum_of_squares(const at::Tensor& tensor);

}  // namespace kolo::train
