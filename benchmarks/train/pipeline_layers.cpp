#include "train/pipeline_layers.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace kolo::bench {
namespace {

/// x + a wide layer of x.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t width, std::int64_t inner) : wide(width, inner), narrow(inner, width) {
    register_module("wide", wide);
    register_module("narrow", narrow);
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(x))); }

  torch::nn::Linear wide, narrow;
};
TORCH_MODULE(ResidualBlock);

LayeredWorkload residual(std::int64_t batch) {
  torch::nn::Sequential layers;
  for (int i = 0; i < 8; ++i) layers->push_back(ResidualBlock(512, 2048));
  return {layers, at::rand({batch, 512}), at::rand({batch, 512})};
}

LayeredWorkload small(std::int64_t batch) {
  return {torch::nn::Sequential(torch::nn::Linear(784, 30), torch::nn::Linear(30, 10)),
          at::rand({batch, 784}), at::rand({batch, 10})};
}

}  // namespace

const std::map<std::string, LayeredWorkload (*)(std::int64_t)>& layered_workloads() {
  static const std::map<std::string, LayeredWorkload (*)(std::int64_t)> all = {{"784-30-10", small},
                                                                               {"residual", residual}};
  return all;
}

}  // namespace kolo::bench
