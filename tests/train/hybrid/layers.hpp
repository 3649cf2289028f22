// A model of seven layers, two of which a tensor group divides, for all grids.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <string>

#include "kolo/train/parallel_layers.hpp"

namespace kolo::test::hybrid {

inline constexpr std::int64_t kLayers = 7, kInputs = 6, kWidth = 8, kOutputs = 3;

/// The layer of this number. A tensor group's constructors are collective.
inline torch::nn::AnyModule layer(std::int64_t number, const Communicator& tensor) {
  const auto mlp = [&](std::int64_t hidden) {
    ParallelMLPOptions options;
    options.width = kWidth;
    options.hidden = hidden;
    options.activation = Activation::gelu;
    // Ranks are threads, which share libtorch's default generator.
    options.generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(number));
    return ParallelMLP(options, tensor);
  };
  switch (number) {
    case 0:
      return torch::nn::AnyModule(torch::nn::Linear(kInputs, kWidth));
    case 2:
      return torch::nn::AnyModule(mlp(12));
    case 3:
      return torch::nn::AnyModule(torch::nn::Linear(kWidth, kWidth));
    case 5:
      return torch::nn::AnyModule(mlp(10));
    case 6:
      return torch::nn::AnyModule(torch::nn::Linear(kWidth, kOutputs));
    default:
      return torch::nn::AnyModule(torch::nn::Tanh());
  }
}

/// Layers `begin` to `end`, by the names that they have in the whole model, in float64.
inline torch::nn::Sequential layers(std::int64_t begin, std::int64_t end, const Communicator& tensor) {
  torch::nn::Sequential result;
  for (std::int64_t number = begin; number < end; ++number)
    result->push_back(std::to_string(number), layer(number, tensor));
  result->to(at::kDouble);
  return result;
}

}  // namespace kolo::test::hybrid
