// The functions of single elements between linear layers.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>

#include "kolo/train/parallel_layers.hpp"

namespace kolo::train {

inline at::Tensor activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::relu ? at::relu(x) : at::gelu(x);
}

inline const char* name_of_activation(Activation activation) {
  return activation == Activation::relu ? "relu" : "gelu";
}

}  // namespace kolo::train
