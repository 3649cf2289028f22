// Which parameters are a unit.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "ranks/model.hpp"

namespace kolo::train {

struct PlannedUnit {
  std::string name;  ///< of the submodule; empty: the model itself
  NamedTensors parameters;
  /// Other units may use its parameters too, so it is there for the whole of forward and backward.
  bool is_shared = false;
};

/// Divides `parameters`, those of the module that are trained, into units of one element type each, in the
/// order in which they are registered. `names` as ShardedDataParallelOptions::units has them; throws
/// InvalidArgumentError for one that is no submodule or lies within another.
std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names,
                                    const NamedTensors& parameters);

}  // namespace kolo::train
