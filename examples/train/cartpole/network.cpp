#include "cartpole/network.hpp"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <cmath>

namespace cartpole {

Network::Network(std::int64_t width, std::uint64_t seed) : width_(width) {
  const std::int64_t elements = (kInputs + 1) * width + (width + 1) * width + (width + 1) * kOutputs;
  parameters_ = at::zeros({elements});
  gradients_ = at::zeros({elements});
  layers_ = layers_of(parameters_);
  layer_gradients_ = layers_of(gradients_);
  torch::manual_seed(seed);
  for (Layer& layer : layers_) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.weight.size(1)));
    layer.weight.uniform_(-bound, bound);
  }
  // At first both ways are about as likely.
  layers_.back().weight.mul_(0.01);
}

std::array<Network::Layer, 3> Network::layers_of(const at::Tensor& flat) const {
  std::int64_t begin = 0;
  const auto next = [&](std::int64_t rows, std::int64_t columns) {
    Layer layer;
    layer.weight = flat.narrow(0, begin, rows * columns).view({rows, columns});
    layer.bias = flat.narrow(0, begin + rows * columns, rows);
    begin += rows * (columns + 1);
    return layer;
  };
  const Layer first = next(width_, kInputs), second = next(width_, width_), last = next(kOutputs, width_);
  return {first, second, last};
}

at::Tensor Network::forward(const at::Tensor& observations) {
  at::Tensor x = observations;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    inputs_[i] = x;
    x = at::addmm(layers_[i].bias, x, layers_[i].weight.t());
    if (i + 1 < layers_.size()) x.tanh_();
  }
  return x;
}

void Network::backward(const at::Tensor& outputs_gradient) {
  at::Tensor gradient = outputs_gradient;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    at::mm_out(layer_gradients_[i].weight, gradient.t(), inputs_[i]);
    at::sum_out(layer_gradients_[i].bias, gradient, at::IntArrayRef{0});
    if (i > 0) gradient = at::tanh_backward(gradient.mm(layers_[i].weight), inputs_[i]);
  }
}

}  // namespace cartpole
