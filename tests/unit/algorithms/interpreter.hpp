// An independent interpreter of schedules: runs them on real memory, in random orders. Shares no code with
// the checker.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo {

struct Trial {
  bool in_place = false;
  /// True: a send completes as soon as it is ready, as with a buffering transport. False: it completes with
  /// its receive.
  bool eager = false;
  bool rank_ordered = false;
};

/// Runs ready steps one by one, in random order, until none is ready. Returns the error: a deadlock, or an
/// output that is not as the collective promises; empty if there is none.
std::string run_randomly(std::span<const schedule::Schedule> schedules,
                         std::span<const std::uint64_t> part_counts, const Trial& trial,
                         std::mt19937& random);

}  // namespace kolo
