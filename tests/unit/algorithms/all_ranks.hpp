// What the tests of algorithms share: the schedules of all ranks, and awkward part counts.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "schedule/lengths.hpp"

namespace kolo {

inline void PrintTo(const Algorithm& algorithm, std::ostream* out) {
  *out << name_of(algorithm.collective) << " " << algorithm.name;
}

inline std::vector<Schedule> all_ranks(const Algorithm& algorithm, int size, int root = 0) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(algorithm.generate({algorithm.collective, rank, size, root}));
  }
  return schedules;
}

/// Every root for few ranks, the interesting ones for many.
inline std::vector<int> roots(const Algorithm& algorithm, int size) {
  if (!has_root(algorithm.collective)) return {0};
  std::vector<int> result;
  if (size <= 9) {
    for (int root = 0; root < size; ++root) result.push_back(root);
  } else {
    result = {0, 1, size / 2, size - 1};
  }
  return result;
}

/// Equal, uneven, prime, sparse and empty parts, `parts` of them each.
inline std::vector<std::vector<std::uint64_t>> awkward_counts(std::uint32_t parts) {
  const std::vector<std::uint64_t> primes = {7, 2, 13, 3, 101, 5, 11};
  std::vector<std::vector<std::uint64_t>> result(7, std::vector<std::uint64_t>(parts, 0));
  for (std::uint32_t i = 0; i < parts; ++i) {
    result[0][i] = 1;
    result[1][i] = 1000;
    result[2][i] = i;                                 // the first is empty
    result[3][i] = primes[i % primes.size()];         // uneven
    result[4][i] = i + 1 == parts ? 17 : 0;           // all in the last
    result[5][i] = i % 3 == 1 ? 0 : (i % 5) * i + 1;  // some are empty
  }
  return result;  // [6]: nothing at all
}

}  // namespace kolo
