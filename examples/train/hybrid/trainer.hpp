// The training of train_hybrid.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hybrid/options.hpp"
#include "kolo/communicator.hpp"

namespace hybrid {

/// Collective. Rank 0's result has all numbers.
nlohmann::json train(const Options& options, kolo::Communicator& communicator);

}  // namespace hybrid
