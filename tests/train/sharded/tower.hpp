// A model of several units: odd widths, a list of layers, a weight that two units use, a vector of the
// model's own.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"

namespace kolo::test::sharded {

inline constexpr Shard kShards[] = {Shard::optimizer_state, Shard::gradients, Shard::parameters};

/// The operation takes a weight of another unit and a bias of its own.
struct TiedImpl : torch::nn::Module {
  explicit TiedImpl(const at::Tensor& tied) {
    weight = register_parameter("weight", tied);
    bias = register_parameter("bias", at::zeros({tied.size(0)}, tied.options().requires_grad(false)));
  }
  at::Tensor forward(const at::Tensor& x) { return at::addmm(bias, x, weight.t()); }
  at::Tensor weight, bias;
};
TORCH_MODULE(Tied);

struct TowerImpl : torch::nn::Module {
  explicit TowerImpl(double seed, std::int64_t width = 7, std::int64_t layers = 3,
                     at::ScalarType type = at::kDouble)
      : first(width, width) {
    register_module("first", first);
    for (std::int64_t i = 0; i < layers; ++i) {
      list->push_back(torch::nn::Linear(width, width));
      list->push_back(torch::nn::Tanh());
    }
    register_module("list", list);
    scale = register_parameter("scale", at::ones({width}));
    to(type);
    last = register_module("last", Tied(first->weight));
    fill(*this, seed);
  }
  at::Tensor forward(const at::Tensor& x) { return last(list->forward(at::tanh(first(x)) * scale)); }

  torch::nn::Linear first;
  torch::nn::Sequential list;
  at::Tensor scale;
  Tied last{nullptr};
};
TORCH_MODULE(Tower);

/// A weight that is registered twice comes once.
inline std::vector<at::Tensor> unique_parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : module.parameters()) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (std::ranges::none_of(result, is_same)) result.push_back(parameter);
  }
  return result;
}

}  // namespace kolo::test::sharded
