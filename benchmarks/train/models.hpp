// The models whose steps are recorded: kinds of networks that differ in where their parameters are.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace kolo::bench {

/// A model with a batch of its own kind.
struct Workload {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> loss;  ///< a forward pass
  std::int64_t tokens = 0;           ///< that a forward pass reads, of a language model; 0: it is none
};

/// By name: "cnn" (0.1 million parameters), "language_model" (1 million), "mlp", "transformer", "wide" (most
/// of them in the first layer), about 25 million each. Each is made with a batch of so many samples.
const std::map<std::string, Workload (*)(std::int64_t batch)>& workloads();

}  // namespace kolo::bench
