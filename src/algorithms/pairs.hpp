// Orders in which a rank visits its peers, so that not all ranks address the same peer at once.
#pragma once

#include "algorithms/algorithm.hpp"

namespace kolo::algorithms {

/// The k-th rank after `rank` (0 < k < size), and the k-th rank before it.
constexpr int after(const ScheduleSpec& spec, int k) {
  return (spec.rank + k) % spec.size;
}
constexpr int before(const ScheduleSpec& spec, int k) {
  return (spec.rank + spec.size - k) % spec.size;
}

/// The chunk that belongs to a rank.
constexpr std::uint32_t part_of(int rank) {
  return static_cast<std::uint32_t>(rank);
}

}  // namespace kolo::algorithms
