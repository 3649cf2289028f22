// Layers that replay those of a profile: they sleep, keep and return bytes, and sum over ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::bench {

/// A layer of a profile of `kolo plan training`, for one batch. Seconds and bytes.
struct HybridLayer {
  std::uint64_t parameters = 0;
  double forward = 0, backward = 0, optimizer = 0;
  double activation_bytes = 0, output_bytes = 0, tensor_sums = 0;
};

/// Throws std::runtime_error, with the file's name, if it is no profile.
std::vector<HybridLayer> read_hybrid_profile(const std::string& path);

/// The settings of all layers of a rank.
struct HybridSetting {
  Communicator tensor = {};       ///< the ranks that share layers with sums
  double batches = 1;             ///< of the profile in a micro-batch
  bool keeps_activations = true;  ///< allocates activations in forward, until backward
  float gradient = 1;             ///< value of all elements of a micro-batch's gradients
  bool catches_up = false;        ///< a sleep that took too long shortens the next one
};

/// A loss that takes no time.
at::Tensor small_loss(const at::Tensor& output, const at::Tensor& target);

/// A layer that is shared among the `tensor` ranks has a part of the time and of the parameters, and sums its
/// output in forward and again in backward. It uses its parameter, which must have been gathered.
torch::nn::Sequential make_hybrid_layers(std::span<const HybridLayer> layers,
                                         const std::shared_ptr<HybridSetting>& setting);

}  // namespace kolo::bench
