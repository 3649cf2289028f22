// What schedules compute, in plain float arithmetic on one thread: the bits that a real run must end with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "kolo/wire.hpp"
#include "schedule/schedule.hpp"

namespace kolo::test {

/// Runs the schedules of all ranks of an out-of-place sum, or average, with these inputs, one a rank, cut
/// into even parts as a call cuts them, and with this format on the wire; returns every rank's output. The
/// schedules must have passed the checker.
std::vector<std::vector<float>> evaluate(std::span<const Schedule> schedules,
                                         const std::vector<std::vector<float>>& inputs, bool average = false,
                                         Wire wire = Wire::native);

/// Numbers whose sum depends on its order: of both signs, and of very different sizes.
std::vector<float> awkward_numbers(int rank, std::uint64_t count);
std::vector<std::uint32_t> bits_of(std::span<const float> numbers);

/// What every rank must hold after this variant of all_reduce of `size` ranks' awkward numbers.
std::vector<std::uint32_t> expected_bits(const Configured& variant, int size, std::uint64_t count,
                                         bool average = false, Wire wire = Wire::native);

}  // namespace kolo::test
