// Small models cut into stages, and what one process makes of the same batches.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kolo/train/pipeline_parallel.hpp"
#include "train/support/models.hpp"

namespace kolo::test::pipeline {

constexpr int kPipelineSteps = 20;
constexpr std::int64_t kPipelineBatch = 24;

/// x + tanh(a linear map of x).
struct ResidualImpl : torch::nn::Module {
  explicit ResidualImpl(std::int64_t width) : linear(width, width) { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& x) { return x + at::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

/// Ten layers, the same for the same type.
inline torch::nn::Sequential tower(at::ScalarType type = at::kDouble) {
  torch::nn::Sequential net(torch::nn::Linear(6, 9), torch::nn::Tanh(), Residual(9), torch::nn::Linear(9, 5),
                            torch::nn::Sigmoid(), torch::nn::Linear(5, 8), Residual(8), Residual(8),
                            torch::nn::Linear(8, 8), torch::nn::Linear(8, 3));
  net->to(type);
  fill(*net, 1);
  return net;
}

inline at::Tensor batch_of(int step, at::ScalarType type = at::kDouble, std::int64_t columns = 6) {
  return numbers(kPipelineBatch, columns, 10 * step).to(type);
}

using Values = std::map<std::string, at::Tensor>;

inline void copy_values(const torch::nn::Module& module, Values& to) {
  for (const auto& parameter : module.named_parameters())
    to[parameter.key()] = parameter.value().detach().clone();
}

struct Trained {
  Values values;  ///< parameters, by name
  std::vector<double> losses;
};

/// One process with whole batches.
inline Trained train_whole(torch::nn::Sequential net, int steps = kPipelineSteps,
                           at::ScalarType type = at::kDouble) {
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = squares(net->forward(batch_of(step, type)), batch_of(1000 + step, type, 3));
    loss.backward();
    optimizer.step();
    result.losses.push_back(loss.item().toDouble());
  }
  copy_values(*net, result.values);
  return result;
}

/// This rank's part of the values, and the losses that all ranks get.
inline Trained train_pipeline(PipelineParallel& pipeline, int steps = kPipelineSteps,
                              at::ScalarType type = at::kDouble) {
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor input = pipeline.is_first() ? batch_of(step, type) : at::Tensor();
    const at::Tensor target = pipeline.is_last() ? batch_of(1000 + step, type, 3) : at::Tensor();
    pipeline.step(input, target);
    optimizer.step();
    result.losses.push_back(pipeline.mean_loss());
  }
  for (const PipelineStage& stage : pipeline.stages()) copy_values(*stage.module, result.values);
  return result;
}

/// The largest difference between values that both have. All of `part` must be in `whole`.
inline double largest_difference(const Values& part, const Values& whole, bool is_relative = false) {
  double largest = 0;
  for (const auto& [name, value] : part) {
    const at::Tensor& other = whole.at(name);
    const double scale = is_relative ? other.abs().max().item().toDouble() : 1;
    largest = std::max(largest, (value - other).abs().max().item().toDouble() / scale);
  }
  return largest;
}

}  // namespace kolo::test::pipeline
