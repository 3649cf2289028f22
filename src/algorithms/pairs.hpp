// Orders in which a rank meets its peers one to one, so that all ranks do not call on the same one at once.
#pragma once

#include "algorithms/algorithm.hpp"

namespace kolo {

/// The k-th rank after `rank` (0 < k < size), and the k-th before it, whose k-th after is `rank`.
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

}  // namespace kolo
