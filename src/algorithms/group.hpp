// Group: ranks that work together, in order, and this rank's place among them.
#pragma once

#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::algorithms {

/// Places count from 0.
class Group {
 public:
  /// `ranks` in their order; this rank is at `place`.
  Group(std::vector<int> ranks, int place) : ranks_(std::move(ranks)), place_(place) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  int place() const { return place_; }
  int at(int place) const { return ranks_[static_cast<std::size_t>(place)]; }
  /// The rank `places` after (negative: before) this one, around the end; |places| <= size.
  int neighbour(int places) const { return at((place_ + places + size()) % size()); }

 private:
  std::vector<int> ranks_;
  int place_;
};

/// Ranks first, first + stride, ..., `count` of them; this rank is at `place`.
inline Group ranks_from(int first, int count, int place, int stride = 1) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int>(i) * stride;
  return {std::move(ranks), place};
}

/// All ranks in ascending order.
inline Group all_ranks(const ScheduleSpec& spec) {
  return ranks_from(0, spec.size, spec.rank);
}

}  // namespace kolo::algorithms
