// What schedules compute, in plain float arithmetic on one thread: the bits that a real run must end with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo::test {

/// Runs the schedules of all ranks of an out-of-place sum with these inputs, one a rank, cut into even parts
/// as a call cuts them; returns every rank's output. The schedules must have passed the checker.
std::vector<std::vector<float>> evaluate_sum(std::span<const Schedule> schedules,
                                             const std::vector<std::vector<float>>& inputs);

}  // namespace kolo::test
