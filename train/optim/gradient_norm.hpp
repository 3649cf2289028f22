// The norm of gradients, the same on all ranks, and gradients scaled to one.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace kolo::train {

/// In float64, in an order that depends on the number of elements alone: libtorch's sums depend on vector
/// units and threads. Throws InvalidArgumentError for complex numbers and tensors that are not on the CPU.
double sum_of_squares(const at::Tensor& tensor);

/// Throws InvalidArgumentError unless `max_norm` is positive and finite.
void check_max_norm(double max_norm);

/// Scales gradients whose norm is `norm` so that it is at most `max_norm`. An infinite or NaN norm leaves
/// them as they are. Undefined gradients are skipped.
void scale_to_norm(const std::vector<at::Tensor>& gradients, double norm, double max_norm);

}  // namespace kolo::train
