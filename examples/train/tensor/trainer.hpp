// The training loop of train_tensor.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kolo/communicator.hpp"
#include "tensor/options.hpp"

namespace tensor {

/// Collective. All ranks read the same windows of the text; rank 0 reports. Losses are those of a single rank
/// with the same options, to rounding (with a capacity for experts the bytes that are dropped may be others).
/// Returns all numbers of the run.
nlohmann::json train(const Options& options, kolo::Communicator& communicator);

}  // namespace tensor
