// The chooser: which algorithm a call runs.
#pragma once

#include <string_view>

#include "algorithms/algorithm.hpp"
#include "base/status.hpp"

namespace kolo {

/// What the choice depends on.
struct Choice {
  ScheduleSpec spec;  ///< its arguments are the choice's to fill in
  Demands demands;
  std::string_view wanted;     ///< by the caller; unknown names and unfit algorithms are errors
  std::string_view preferred;  ///< by the environment; used where the collective knows it and it fits
};

/// The caller's algorithm, else the environment's, else the collective's first that fits. Thread-safe.
Result<Configured> choose_algorithm(const Choice& choice);

}  // namespace kolo
