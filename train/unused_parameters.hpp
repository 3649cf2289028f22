// Which parameters a backward pass from given outputs cannot reach.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <span>
#include <vector>

namespace kolo::train {

/// Walks the autograd graph from `outputs` and returns, for each accumulator, whether it was met. Outputs
/// without a graph are skipped.
std::vector<bool> reachable(std::span<const at::Tensor> outputs,
                            std::span<const std::shared_ptr<torch::autograd::Node>> accumulators);

}  // namespace kolo::train
