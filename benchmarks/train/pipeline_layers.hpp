// Models for pipelines: layers that sleep for as long as others compute, and layers that compute.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "kolo/train/partition.hpp"

namespace kolo::bench {

/// Layers that sleep as long as `costs` say for a batch, divided by the number of its micro-batches, forward
/// and backward, and give outputs of so many bytes.
torch::nn::Sequential make_sleeping_layers(std::span<const LayerCost> costs, int micro_batches);

/// A network with an input of its own.
struct LayeredWorkload {
  torch::nn::Sequential layers;
  at::Tensor input, target;  ///< of `batch` samples
};

/// By name: "residual", 8 equal blocks of 512 x 2048 x 512; "784-30-10", two layers.
const std::map<std::string, LayeredWorkload (*)(std::int64_t batch)>& layered_workloads();

}  // namespace kolo::bench
