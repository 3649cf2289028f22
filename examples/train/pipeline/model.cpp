#include "pipeline/model.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/utils.h>

namespace pipeline {
namespace {

/// x + what two layers make of x.
struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t width, double dropout)
      : norm(torch::nn::LayerNormOptions({width})),
        wide(width, 2 * width),
        narrow(2 * width, width),
        drop(dropout) {
    register_module("norm", norm);
    register_module("wide", wide);
    register_module("narrow", narrow);
    register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(narrow(at::relu(wide(norm(x))))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear wide, narrow;
  torch::nn::Dropout drop;
};
TORCH_MODULE(Block);

}  // namespace

torch::nn::Sequential make_layers(const Options& options) {
  torch::manual_seed(options.seed);
  torch::nn::Sequential layers(torch::nn::Linear(784, options.width), torch::nn::ReLU());
  for (std::int64_t i = 0; i < options.blocks; ++i) layers->push_back(Block(options.width, options.dropout));
  layers->push_back(torch::nn::Linear(options.width, 10));
  return layers;
}

}  // namespace pipeline
