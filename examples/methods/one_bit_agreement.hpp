// What ranks must agree on before OneBitAdam trains.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/adam.h>

#include <vector>

#include "methods/one_bit_adam.hpp"

namespace kolo::methods {

using ParameterGroups = std::vector<torch::optim::OptimizerParamGroup>;
using Averaged = std::vector<PlacedParameter>;

/// The parameters whose gradients the model averages.
Averaged averaged_by(const DistributedDataParallelBase& model);

/// One group of all parameters whose gradients the model averages.
ParameterGroups group_of(const DistributedDataParallelBase& model);

/// Collective: returns `groups`, with options in each. Throws as OneBitAdam's constructor does.
ParameterGroups agreed(DistributedDataParallelBase& model, ParameterGroups groups,
                       const torch::optim::AdamOptions& defaults, const OneBitAdamOptions& options);

}  // namespace kolo::methods
