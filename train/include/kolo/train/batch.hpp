// Batch: what a step of training works on.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <vector>

namespace kolo {

/// Tensors whose first dimension counts samples, the same number in each: images and labels, say.
using Batch = std::vector<at::Tensor>;

}  // namespace kolo
