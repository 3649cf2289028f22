// What all ranks agree on before they train: the settings, the model's tensors, and rank 0's values.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// What the ranks of a job average.
struct AgreedModel {
  NamedTensors parameters;  ///< those that want gradients
  NamedTensors buffers;     ///< of floating-point numbers
  NamedTensors frozen;      ///< parameters
  NamedTensors all;         ///< with the other buffers
};
/// Parameters, then buffers.
NamedTensors averaged_of(const AgreedModel& model);

/// Collective: throws what agree() does where `require_valid` throws or the model cannot be served, and where
/// `settings` or tensors differ.
AgreedModel agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                           const std::string& settings,
                           const std::function<void(const Model&)>& require_valid);
/// The same, then copies rank 0's tensors to all ranks.
AgreedModel agree_and_replicate(const char* who, const torch::nn::Module& module, Communicator& communicator,
                                const std::string& settings,
                                const std::function<void(const Model&)>& require_valid);

/// Packs tensors of the model, this list. Where one has another type or shape, or a parameter that was frozen
/// wants gradients now, this rank ends the communicator on all ranks and throws InvalidArgumentError with its
/// name. `what` stands before it.
void pack(const AgreedModel& model, const NamedTensors& from, std::span<const FlatTensors> to,
          Communicator& communicator, const std::string& what = {});

/// Collective: begins to average over all ranks, in place.
std::vector<TensorWork> start_averages(std::span<const FlatTensors> flats, Communicator& communicator,
                                       const CallOptions& options = {});
std::uint64_t bytes_of(std::span<const FlatTensors> flats);

}  // namespace kolo::train
