// A model whose layers are frozen, and learn by small matrices beside them (LoRA).
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

#include "train/support/models.hpp"

namespace kolo::test::sharded {

struct AdaptedLayerImpl : torch::nn::Module {
  AdaptedLayerImpl(std::int64_t width, std::int64_t rank)
      : base(width, width),
        down(torch::nn::LinearOptions(width, rank).bias(false)),
        up(torch::nn::LinearOptions(rank, width).bias(false)) {
    register_module("base", base);
    register_module("down", down);
    register_module("up", up);
    for (at::Tensor& parameter : base->parameters()) parameter.set_requires_grad(false);
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(base(x) + up(down(x))); }

  torch::nn::Linear base, down, up;
};
TORCH_MODULE(AdaptedLayer);

/// Its first layer is frozen altogether.
struct AdaptedImpl : torch::nn::Module {
  AdaptedImpl(double seed, std::int64_t width, std::int64_t count, std::int64_t rank = 2)
      : first(width, width) {
    register_module("first", first);
    for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(false);
    for (std::int64_t i = 0; i < count; ++i) layers->push_back(AdaptedLayer(width, rank));
    register_module("layers", layers);
    fill(*this, seed);
  }
  at::Tensor forward(at::Tensor x) {
    x = first(x);
    for (const auto& layer : *layers) x = layer->as<AdaptedLayer>()->forward(x);
    return x;
  }
  AdaptedLayerImpl& layer(std::size_t index) { return *layers[index]->as<AdaptedLayer>(); }

  torch::nn::Linear first;
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Adapted);

}  // namespace kolo::test::sharded
