// Contributions: sets of ranks, which the checker follows through reductions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace kolo::schedule {

/// The ranks whose contributions a value holds, each once. In rank-ordered mode they are combined in rank
/// order without a gap. Sets are named by small numbers: set r, for r below the number of ranks, holds rank r
/// alone.
class Contributions {
 public:
  using Set = std::uint32_t;

  Contributions(int size, bool rank_ordered);

  static Set only(int rank) { return static_cast<Set>(rank); }
  bool complete(Set set) const;
  bool equal(Set one, Set other) const;
  /// left op right. Fails if a rank is in both, or if rank order is broken.
  Result<Set> combine(Set left, Set right);
  /// The ranks of a set, in ascending order.
  std::vector<int> ranks(Set set) const;
  /// "rank 3", "ranks 0 to 2, 5".
  std::string describe(Set set) const;
  /// "rank 1": the first rank that an incomplete set lacks.
  std::string first_missing(Set set) const;

 private:
  /// Ranks begin <= r < end. A set is a list of runs in ascending order that neither touch nor overlap.
  struct Run {
    std::uint32_t begin;
    std::uint32_t end;
    bool operator==(const Run&) const = default;
  };
  using Runs = std::vector<Run>;

  Result<Runs> merge(const Runs& one, const Runs& other) const;

  std::uint32_t size_;
  bool rank_ordered_;
  std::vector<Runs> sets_;
};

}  // namespace kolo::schedule
