// Models for pipelines: layers that sleep for as long as others compute, and layers that compute.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

/// "residual": 8 equal blocks of 512 x 2048 x 512. "uneven": a stack of layers that get narrower.
/// "784-30-10": two layers. Throws std::invalid_argument, with the names, for another.
LayeredWorkload make_layered_workload(const std::string& name, std::int64_t batch);
std::vector<std::string> layered_workload_names();

}  // namespace kolo::bench
