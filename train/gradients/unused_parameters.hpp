// Which parameters a backward pass from given outputs cannot reach.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <span>
#include <vector>

#include "libtorch/gradient_listener.hpp"

namespace kolo::train {

/// Walks the autograd graph from the outputs' `edges` and returns, for each accumulator, whether it was met.
std::vector<bool> reachable(std::span<const torch::autograd::Edge> edges,
                            std::span<const NodePtr> accumulators);

}  // namespace kolo::train
