// Contributions: sets of ranks, as the checker follows them through reductions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"

namespace kolo {

/// Which ranks' contributions a value holds, each once; in rank-ordered mode, combined in rank order without
/// a gap. Sets are named by small numbers: set r, for r below the number of ranks, holds rank r alone.
class Contributions {
 public:
  using Set = std::uint32_t;

  Contributions(int size, bool rank_ordered);

  static Set only(int rank) { return static_cast<Set>(rank); }
  bool complete(Set set) const;
  bool equal(Set one, Set other) const;
  /// left op right; fails where a rank is in both, or where rank order is broken.
  Result<Set> combine(Set left, Set right);
  /// In ascending order.
  std::vector<int> ranks(Set set) const;
  /// "rank 3", "ranks 0 to 2, 5".
  std::string describe(Set set) const;
  /// "rank 1": whom a set that is not complete lacks, the first one.
  std::string first_missing(Set set) const;

 private:
  /// Ranks begin <= r < end. A set is a list of runs that neither touch nor overlap, in ascending order.
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

}  // namespace kolo
