// A second opinion on schedules: runs them on real memory, in random orders. Shares no code with the checker.
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
  /// A send is done as soon as it is ready, as with a buffering transport; otherwise it meets its receive.
  bool eager = false;
  bool rank_ordered = false;
};

/// Runs steps one by one, any that is ready, until none is. Returns what went wrong: a deadlock, or an output
/// that is not what the collective promises; empty if nothing.
std::string run_randomly(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
                         const Trial& trial, std::mt19937& random);

}  // namespace kolo
