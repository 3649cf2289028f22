// The state of libtorch's default generator of random numbers on the CPU.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

namespace kolo::train {

at::Tensor random_state();
/// Throws c10::Error where `state` is none.
void set_random_state(const at::Tensor& state);

}  // namespace kolo::train
