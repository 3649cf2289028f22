// The models whose steps are recorded: kinds of networks that differ in where their parameters are.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace kolo::bench {

/// A model with a batch of its own kind.
struct Workload {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> loss;  ///< a forward pass
  std::int64_t tokens = 0;           ///< that a forward pass reads, of a language model; 0: it is none
};

/// "cnn" (0.1 million parameters), "language_model" (1 million), "mlp", "transformer", "wide" (most of them
/// in the first layer), about 25 million each. Throws std::invalid_argument, with the names, for another.
Workload make_workload(const std::string& name, std::int64_t batch);
std::vector<std::string> workload_names();

}  // namespace kolo::bench
