// Models that are cut into the stages of a pipeline.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <map>
#include <string>

namespace kolo::bench {

/// A network and its data.
struct LayeredWorkload {
  torch::nn::Sequential layers;
  at::Tensor input, target;  ///< of `batch` samples
};

/// By name: "residual", 8 equal blocks of 512 x 2048 x 512; "784-30-10", two layers.
const std::map<std::string, LayeredWorkload (*)(std::int64_t batch)>& layered_workloads();

}  // namespace kolo::bench
