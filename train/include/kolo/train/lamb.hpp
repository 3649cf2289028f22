// LAMB: Adam for large batches, with a rate of its own for each layer.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <tuple>
#include <vector>

#include "kolo/train/sum_over_ranks.hpp"

namespace kolo {

/// Of a group of parameters.
struct LAMBOptions : public torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  LAMBOptions(double lr = 1e-3);
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get Adam and
  /// neither a rate of their own nor weight decay. Off for layers that are flattened into shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;
};

/// Y. You et al.: "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020,
/// algorithm 2, with the norm itself as its function phi. Of a layer w with the gradient g, in step t:
///
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
///     w = w - lr |w| / |u| u                                       lr u, where |w| or |u| is zero
///
/// So a layer moves by `lr` times its norm in a step. Norms are sums in float64 in a fixed order: the same
/// bits on all ranks. A step needs memory for u, as much as all gradients take. step() throws
/// InvalidArgument, before any parameter moves, for sparse gradients and parameters that are not on the CPU.
/// State (m, v, t) is saved as by optimizers of libtorch. Not thread-safe.
class LAMB : public torch::optim::Optimizer {
 public:
  /// Both throw InvalidArgument for options that are negative or not finite, and betas of 1 or more.
  LAMB(std::vector<torch::optim::OptimizerParamGroup> groups, const LAMBOptions& defaults = {},
       SumOverRanks sum_over_ranks = {});
  LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options = {}, SumOverRanks sum_over_ranks = {});

  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  SumOverRanks sum_over_ranks_;
};

}  // namespace kolo
