// The network: a list of layers that stages can be made of.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include "pipeline/options.hpp"

namespace pipeline {

/// For images [n, 784]; scores of the ten classes, [n, 10]. The same values for the same seed.
torch::nn::Sequential make_layers(const Options& options);

}  // namespace pipeline
