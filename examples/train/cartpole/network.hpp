// Network: which way to push, and how long the pole will stand.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace cartpole {

/// Two layers of tanh, which a policy (the logits of left and right) and a value share. Parameters are one
/// tensor, and their gradients another: one message averages all. Backward is written out, for an autograd
/// graph takes longer than the products of so small a network. Not thread-safe.
class Network {
 public:
  static constexpr std::int64_t kInputs = 4, kOutputs = 3;  ///< the outputs: left, right, value

  /// With the same parameters for the same seed.
  Network(std::int64_t width, std::uint64_t seed);

  /// Outputs [n, 3] of observations [n, 4].
  at::Tensor forward(const at::Tensor& observations);
  /// Writes gradients(), from the gradient of the last forward's outputs.
  void backward(const at::Tensor& outputs_gradient);

  at::Tensor& parameters() noexcept { return parameters_; }
  at::Tensor& gradients() noexcept { return gradients_; }

 private:
  /// Views of one of the two tensors.
  struct Layer {
    at::Tensor weight, bias;
  };

  std::array<Layer, 3> layers_of(const at::Tensor& flat) const;

  std::int64_t width_;
  at::Tensor parameters_, gradients_;
  std::array<Layer, 3> layers_, layer_gradients_;
  std::array<at::Tensor, 3> inputs_;  ///< of each layer in the last forward
};

}  // namespace cartpole
