// Trains and evaluates on all ranks of the job.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kolo/communicator.hpp"
#include "pipeline/options.hpp"

namespace pipeline {

/// Collective: the numbers of the run. Rank 0 prints them too.
nlohmann::json train(const Options& options, kolo::Communicator& communicator);

}  // namespace pipeline
