// Helpers for closed forms.
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

}  // namespace kolo::algorithms
