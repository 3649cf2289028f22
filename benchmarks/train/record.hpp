// Records a trace of a model's training step on one core.
#pragma once

#include "train/models.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// Medians of `steps` steps (SGD with momentum), after a few that are left out.
Trace record(const std::string& model, std::int64_t batch, int steps);

}  // namespace kolo::bench
