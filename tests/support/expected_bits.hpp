// The bits that a real run must produce, computed from its schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "evaluation/evaluate.hpp"

namespace kolo::test {

/// Numbers whose sum depends on the order of addition: both signs, very different magnitudes.
std::vector<float> awkward_numbers(int rank, std::uint64_t count);
std::vector<std::uint32_t> bits_of(std::span<const float> numbers);

/// The expected result on every rank of this variant of all_reduce over `size` ranks' awkward numbers.
std::vector<std::uint32_t> expected_bits(const algorithms::ConfiguredAlgorithm& variant, int size,
                                         std::uint64_t count, const evaluation::Arithmetic& arithmetic = {});

}  // namespace kolo::test
