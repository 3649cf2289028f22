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

/// Collective: the model, of whose buffers those of floating-point numbers alone are listed. Throws what
/// agree() does where `require_valid` throws or the model cannot be served, and where `settings` or tensors
/// differ. Then rank 0's tensors are copied to all ranks, if `replicates`.
Model agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                     bool replicates, const std::string& settings = "no options",
                     const std::function<void(const Model&)>& require_valid = {});

/// Packs tensors of the model, this list. Where one has another type or shape, or a parameter that was frozen
/// wants gradients now, this rank ends the communicator on all ranks and throws InvalidArgumentError with its
/// name. `what` stands before it.
void pack(const Model& model, const NamedTensors& from, std::span<const FlatTensors> to,
          Communicator& communicator, const std::string& what = {});

/// Collective: begins to average over all ranks, in place.
std::vector<TensorWork> start_averages(std::span<const FlatTensors> flats, Communicator& communicator,
                                       const CallOptions& options = {});
std::uint64_t bytes_of(std::span<const FlatTensors> flats);

}  // namespace kolo::train
