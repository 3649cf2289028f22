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
  bool is_frozen = false;  ///< its parameters want no gradients
  /// Other units may use its parameters too, so it is there for the whole of forward and backward.
  bool is_shared = false;
};

/// Divides the module's parameters into units of one element type each, trained or frozen, in the order in
/// which they are registered; those of one submodule follow each other. Frozen parameters that are no dense
/// tensors of kolo's types are left out. `names` as ShardedDataParallelOptions::units has them; throws
/// InvalidArgumentError for one that is no submodule or lies within another.
std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names);

}  // namespace kolo::train
