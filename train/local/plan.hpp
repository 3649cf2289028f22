// What all ranks agree on before they train: the settings, the model's tensors, and rank 0's values.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <functional>
#include <string>

#include "kolo/communicator.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// What the ranks of a job average.
struct AgreedModel {
  NamedTensors parameters;  ///< those that want gradients
  NamedTensors buffers;     ///< of floating-point numbers
  NamedTensors frozen;      ///< parameters
  NamedTensors all;         ///< with the other buffers
};

/// Collective: throws what agree() does where `require_valid` throws or the model cannot be served, and where
/// `settings` or tensors differ.
AgreedModel agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                           const std::string& settings,
                           const std::function<void(const Model&)>& require_valid);
/// The same, then copies rank 0's tensors to all ranks.
AgreedModel agree_and_replicate(const char* who, const torch::nn::Module& module, Communicator& communicator,
                                const std::string& settings,
                                const std::function<void(const Model&)>& require_valid);

/// Where a parameter that was frozen wants gradients now, this rank ends the communicator on all ranks and
/// throws InvalidArgumentError with its name.
void require_frozen(const AgreedModel& model, Communicator& communicator);

}  // namespace kolo::train
