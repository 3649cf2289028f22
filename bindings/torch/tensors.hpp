// Tensors and reductions of PyTorch in kolo's terms.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "kolo/buffer.hpp"
#include "kolo/reduction.hpp"

namespace kolo::pytorch {

/// The memory of a tensor whose elements lie in logical order. Types that kolo does not know are bytes.
Buffer buffer_of(const at::Tensor& tensor);

/// Whether the elements lie in memory in logical order, as they are.
bool is_plain(const at::Tensor& tensor);

/// What a reduction of `tensor` by `op` is; throws std::invalid_argument if the type is not one that kolo
/// reduces.
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor);

/// Whether kolo has no such average, so that a wider sum is divided.
bool averages_integers(const c10d::ReduceOp& op, const at::Tensor& tensor);

}  // namespace kolo::pytorch
