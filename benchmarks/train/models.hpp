// The models whose steps are recorded. They differ in the places of their parameters.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace kolo::bench {

/// A model and its batch.
struct Workload {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> loss;  ///< a forward pass
  std::int64_t tokens = 0;           ///< of a forward pass of a language model; 0: another model
};

/// By name: "cnn" (0.1 million parameters), "language_model" (1 million), "mlp", "transformer", "wide" (most
/// of them in the first layer), about 25 million each.
const std::map<std::string, Workload (*)(std::int64_t batch)>& workloads();

}  // namespace kolo::bench
