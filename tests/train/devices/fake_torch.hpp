// What tests ask of libtorch's CUDA over the fake driver, which is in each program that has fake_torch.cpp.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

namespace kolo::test {

/// A kernel that is late: the current stream of the tensor's device does it before its next operation, or
/// when the host waits for it, or a stream that waits for it.
void fill_later(const at::Tensor& tensor, double value);

}  // namespace kolo::test
