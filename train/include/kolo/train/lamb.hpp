// LAMB: Adam for large batches, with a rate of its own for each layer.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <tuple>
#include <vector>

#include "kolo/train/sum_over_ranks.hpp"

namespace kolo {

/// Options of a group of parameters, set by a chain of calls: `LAMBOptions(2e-3).weight_decay(0.01)`. The
/// betas are those of the paper's experiments.
struct LAMBOptions : public torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  /// All other options have their defaults.
  LAMBOptions(double lr = 1e-3);
  /// beta1 of the first moment, beta2 of the second.
  using Betas = std::tuple<double, double>;
  /// The part of its norm by which a layer moves in a step; 0 or more.
  TORCH_ARG(double, lr) = 1e-3;
  /// How much of the moments stays in each step; each from 0 to below 1.
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  /// Added to the root of the second moment, against divisions by zero; 0 or more.
  TORCH_ARG(double, eps) = 1e-6;
  /// The part of a layer that is added to its update, before the update's norm is taken; 0 or more.
  TORCH_ARG(double, weight_decay) = 0;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get Adam and
  /// neither a rate of their own nor weight decay. Off for layers that are flattened into shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  /// Reads and writes the options, for save() and load().
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  /// The rate `lr`, by the names that libtorch's schedulers use.
  double get_lr() const override;
  void set_lr(double lr) override;
};

/// LAMB: Adam for large batches, in which each layer moves by a part of its norm. Y. You et al.: "Large Batch
/// Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2, with the norm itself
/// as its function phi. Of a layer w with the gradient g, in step t:
///
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
///     w = w - lr |w| / |u| u                                       lr u, where |w| or |u| is zero
///
/// So a layer moves by `lr` times its norm in a step. Norms are sums in float64 in a fixed order: the same
/// bits on all ranks. A step needs memory for u, as much as all gradients take. step() throws
/// InvalidArgumentError, before any parameter moves, for sparse gradients, parameters that are not on the
/// CPU, and shards or slices without sum_over_ranks. State (m, v, t) is saved as by optimizers of libtorch.
/// Not thread-safe.
class LAMB : public torch::optim::Optimizer {
 public:
  /// Both throw InvalidArgumentError for options that are negative or not finite, and betas of 1 or more.
  LAMB(std::vector<torch::optim::OptimizerParamGroup> groups, const LAMBOptions& defaults = {},
       SumOverRanks sum_over_ranks = {});
  LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options = {}, SumOverRanks sum_over_ranks = {});

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
