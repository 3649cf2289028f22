// SparseAdam: Adam for models some of whose gradients are sparse, as an embedding's made with sparse(true)
// are.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/adam.h>

namespace kolo {

/// Adam that takes sparse gradients too, which libtorch's refuses. Where a gradient is dense it is
/// torch::optim::Adam, bit for bit. Of a parameter with a sparse gradient it touches the rows that have one
/// alone: those are updated, with their moments, by Adam's formula (D. P. Kingma, J. Ba: "Adam: A Method for
/// Stochastic Optimization", ICLR 2015, algorithm 1), with the bias corrections of the parameter's step; the
/// moments of other rows do not decay and those rows do not move. PyTorch and TensorFlow know it as
/// SparseAdam and LazyAdam. A step therefore costs what the rows cost and not what the table costs, but it is
/// not Adam with the same gradient made dense. Throws InvalidArgumentError, before any parameter moves, for a
/// sparse gradient of a parameter group with weight_decay or amsgrad. Options and saved state are those of
/// torch::optim::Adam. Not thread-safe.
class SparseAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  /// Makes a step for each parameter that has a gradient. `closure`, if there is one, is called first, with
  /// gradients enabled, and its loss returned; else an undefined tensor.
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace kolo
