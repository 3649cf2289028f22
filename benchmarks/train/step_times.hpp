// What each step of a replay took.
#pragma once

#include <vector>

namespace kolo::bench {

/// Seconds of this rank, a value for each step.
struct StepTimes {
  std::vector<double> step;
  std::vector<double> exposed;    ///< what was waited for communication
  std::vector<double> processor;  ///< processor time of this process
};

}  // namespace kolo::bench
