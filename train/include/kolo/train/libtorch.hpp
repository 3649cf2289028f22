// libtorch's tensors, included so that every compiler takes them. Include it before any other header of
// libtorch.
#pragma once

// In C++20 clang 14 rejects libtorch's headers (std::vector of a class that is declared only) unless this one
// is the first. It brings in at::Tensor.
#include <ATen/core/ivalue.h>
