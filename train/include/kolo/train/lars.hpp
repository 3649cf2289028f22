// LARS: SGD for large batches, with a rate of its own for each layer.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <vector>

#include "kolo/train/sum_over_ranks.hpp"

namespace kolo {

/// Of a group of parameters.
struct LARSOptions : public torch::optim::OptimizerCloneableOptions<LARSOptions> {
  LARSOptions(double lr);
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, weight_decay) = 0;
  /// How far a layer moves in a step, as a part of its norm, at a rate of 1.
  TORCH_ARG(double, trust_coefficient) = 0.001;
  /// Parameters with one dimension, as biases and what scales and shifts a normalization, get SGD with
  /// momentum and neither a rate of their own nor weight decay. Off for layers that are flattened into
  /// shards.
  TORCH_ARG(bool, exclude_vectors) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;
};

/// Y. You, I. Gitman, B. Ginsburg: "Large Batch Training of Convolutional Networks", 2017, algorithm 1. Of a
/// layer w with the gradient g:
///
///     rate = lr trust_coefficient |w| / (|g| + weight_decay |w|)       lr, where |w| or |g| is zero
///     v = momentum v + rate (g + weight_decay w)
///     w = w - v
///
/// So a layer moves by a part of its norm however large its gradient is, and the rate of the batch no longer
/// depends on the layer with the smallest weights. Norms are sums in float64 in a fixed order: the same bits
/// on all ranks. step() throws InvalidArgument, before any parameter moves, for sparse gradients and
/// parameters that are not on the CPU. State (v) is saved as by optimizers of libtorch. Not thread-safe.
class LARS : public torch::optim::Optimizer {
 public:
  /// Both throw InvalidArgument for options that are negative or not finite, and a momentum of 1 or more.
  LARS(std::vector<torch::optim::OptimizerParamGroup> groups, const LARSOptions& defaults,
       SumOverRanks sum_over_ranks = {});
  LARS(std::vector<at::Tensor> parameters, const LARSOptions& options, SumOverRanks sum_over_ranks = {});

  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  SumOverRanks sum_over_ranks_;
};

}  // namespace kolo
