// Which parameters a backward pass from given outputs cannot reach.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <span>
#include <vector>

namespace kolo::train {

/// Walks the autograd graph from the outputs' `edges` and returns, for each accumulator, whether it was met.
std::vector<bool> reachable(std::span<const torch::autograd::Edge> edges,
                            std::span<const std::shared_ptr<torch::autograd::Node>> accumulators);

}  // namespace kolo::train
