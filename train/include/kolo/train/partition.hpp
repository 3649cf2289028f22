// measure_layers(): the times of a model's layers, from which partition() cuts it into stages.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include <vector>

#include "kolo/train/stage_partition.hpp"

namespace kolo {

/// Runs the layers one after the other on this rank alone, forward and backward, `repeats` times after two
/// runs that do not count; times are medians. `input` is a batch, or a micro-batch, as the pipeline gets it.
/// Leaves parameters and their gradients as they are, and buffers too. The layers' names are those of the
/// Sequential. Throws InvalidArgumentError where there are no layers or no repeats.
std::vector<LayerCost> measure_layers(torch::nn::Sequential layers, const at::Tensor& input,
                                      int repeats = 10);

}  // namespace kolo
