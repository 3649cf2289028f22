// The network: two convolutions and two fully connected layers, 105,866 parameters.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace fashion_mnist {

struct NetImpl : torch::nn::Module {
  NetImpl();
  /// Scores of the ten classes, [n, 10], for images [n, 1, 28, 28].
  at::Tensor forward(const at::Tensor& images);

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear hidden, output;
};
TORCH_MODULE(Net);

}  // namespace fashion_mnist
