// A round: ranks that are started, hit, and looked at.
#pragma once

#include <string>
#include <vector>

#include "stress/plan.hpp"

namespace kolo::stress {

struct Outcome {
  std::vector<std::string> faults;  ///< what must never happen, in words
  /// Of each survivor, in seconds: from the hit that it had to notice (a kill), or from the deadline that
  /// follows it (a stop).
  std::vector<double> notice_times;
  /// Likewise, of those that shrink: from the last kill, or from their error where that came later, to the
  /// first sums of those that are left.
  std::vector<double> shrink_times;
  std::uint64_t steps = 0;  ///< of all ranks
  bool met = true;          ///< false: the machine had no time for all ranks to meet, and none was hit
};

/// How the names of this process's rounds begin in the folder for temporary files.
std::string folder_prefix();

/// `hold`: leaves a round's processes as they are when something was wrong with it.
Outcome run_round(const Plan& plan, const Limits& limits, bool hold);

}  // namespace kolo::stress
