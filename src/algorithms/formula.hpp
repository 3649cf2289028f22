// Helpers for closed forms, and closed forms that several algorithms have.
#pragma once

#include <bit>
#include <cstdint>

#include "algorithms/algorithm.hpp"

namespace kolo::algorithms {

constexpr std::uint64_t ranks_of(const ScheduleSpec& spec) {
  return static_cast<std::uint64_t>(spec.size);
}
/// floor_log2(1) is 0.
constexpr std::uint64_t floor_log2(std::uint64_t n) {
  return static_cast<std::uint64_t>(std::bit_width(n) - 1);
}
constexpr std::uint64_t ceil_log2(std::uint64_t n) {
  return static_cast<std::uint64_t>(std::bit_width(n - 1));
}

/// Each step moves one rank's part, or a sum of it.
inline constexpr ClosedForm kPartEachStep = {
    .steps = "N-1",
    .sent = "(N-1)/N n",
    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
      return {n - 1, n - 1};
    },
};
/// First for the sums, then to share them out.
inline constexpr ClosedForm kPartEachStepTwice = {
    .steps = "2(N-1)",
    .sent = "2(N-1)/N n",
    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
      return {2 * (n - 1), 2 * (n - 1)};
    },
};
/// As many parts in a step as in all steps before it, or after it.
inline constexpr ClosedForm kDoublingParts = {
    .steps = "ceil(log2 N)",
    .sent = "(N-1)/N n",
    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
      return {ceil_log2(n), n - 1};
    },
};
/// Each step moves the whole data.
inline constexpr ClosedForm kAllEachStep = {
    .steps = "N-1",
    .sent = "(N-1) n",
    .cost = kPartEachStep.cost,
};

}  // namespace kolo::algorithms
