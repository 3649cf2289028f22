// Layers that sleep for as long as those of a profile compute, keep and give as many bytes, and sum over
// ranks.
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

/// A layer for one batch of a profile, as `kolo plan training` reads it. Seconds and bytes.
struct HybridLayer {
  std::uint64_t parameters = 0;
  double forward = 0, backward = 0, optimizer = 0;
  double activation_bytes = 0, output_bytes = 0, tensor_sums = 0;
};

/// Throws std::runtime_error, with the file's name, for one that is none.
std::vector<HybridLayer> read_hybrid_profile(const std::string& path);

/// What all layers of a rank have in common.
struct HybridSetting {
  Communicator tensor;            ///< the ranks that share layers with sums
  double batches = 1;             ///< of the profile in a micro-batch
  bool keeps_activations = true;  ///< else nothing stays for backward
  float gradient = 1;             ///< what every element of a micro-batch's gradients is
};

/// A layer that is shared among `tensor` computes a part of its time, has a part of its parameters, and sums
/// its output in forward, and in backward again. The parameter is used where the layer computes, so that it
/// must have been gathered.
torch::nn::Sequential make_hybrid_layers(std::span<const HybridLayer> layers,
                                         const std::shared_ptr<HybridSetting>& setting);

}  // namespace kolo::bench
