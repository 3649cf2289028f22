// LARS: SGD for large batches, with a rate of its own for each layer.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <vector>

#include "kolo/train/sum_over_ranks.hpp"

namespace kolo {

/// Options of a group of parameters, set by a chain of calls: `LARSOptions(4).weight_decay(5e-4)`.
struct LARSOptions : public torch::optim::OptimizerCloneableOptions<LARSOptions> {
  /// All other options have their defaults.
  LARSOptions(double lr);
  /// A factor on the rates of all layers, and the rate itself of what is exempt (exclude_vectors); 0 or more.
  TORCH_ARG(double, lr);
  /// How much of the last step is added to the next one; from 0 to below 1. 0 keeps no state.
  TORCH_ARG(double, momentum) = 0.9;
  /// The part of a layer that is added to its gradient; 0 or more.
  TORCH_ARG(double, weight_decay) = 0;
  /// How far a layer moves in a step, as a part of its norm, with `lr` = 1 and without momentum; 0 or more.
  TORCH_ARG(double, trust_coefficient) = 0.001;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get SGD with
  /// momentum and neither a rate of their own nor weight decay. Off for layers that are flattened into
  /// shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  /// Reads and writes the options, for save() and load().
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  /// The rate `lr`, by the names that libtorch's schedulers use.
  double get_lr() const override;
  void set_lr(double lr) override;
};

/// LARS: SGD for large batches, in which each layer moves by a part of its norm. Y. You, I. Gitman, B.
/// Ginsburg: "Large Batch Training of Convolutional Networks", 2017, algorithm 1. Of a layer w with the
/// gradient g:
///
///     rate = lr trust_coefficient |w| / (|g| + weight_decay |w|)       lr, where |w| or |g| is zero
///     v = momentum v + rate (g + weight_decay w)
///     w = w - v
///
/// So a layer moves by a part of its norm however large its gradient is, and the rate of the batch no longer
/// depends on the layer with the smallest weights. Norms are sums in float64 in a fixed order: the same bits
/// on all ranks. step() throws InvalidArgumentError, before any parameter moves, for sparse gradients,
/// parameters that are not on the CPU, and shards or slices without sum_over_ranks. State (v) is saved as by
/// optimizers of libtorch. Not thread-safe.
class LARS : public torch::optim::Optimizer {
 public:
  /// Both throw InvalidArgumentError for options that are negative or not finite, and a momentum of 1 or
  /// more.
  LARS(std::vector<torch::optim::OptimizerParamGroup> groups, const LARSOptions& defaults,
       SumOverRanks sum_over_ranks = {});
  LARS(std::vector<at::Tensor> parameters, const LARSOptions& options, SumOverRanks sum_over_ranks = {});

  /// Makes a step for each parameter that has a gradient. `closure`, if there is one, is called first, with
  /// gradients enabled, and its loss returned; else an undefined tensor. Throws InvalidArgumentError as said
  /// above, and what sum_over_ranks throws.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Writes and reads state and options, for torch::save(), torch::load() and a Checkpoint. load() throws
  /// InvalidArgumentError for what another optimizer or another set of parameter groups has saved.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  SumOverRanks sum_over_ranks_;
};

}  // namespace kolo
