// BinomialTree: a rank's place in the tree that broadcast and reduce use.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo {

/// Ranks are counted from the root, v = (rank - root) mod N. v's parent clears the lowest bit set in v; its
/// children set one bit below that.
struct BinomialTree {
  explicit BinomialTree(const ScheduleSpec& spec) {
    const int v = (spec.rank - spec.root + spec.size) % spec.size;
    const auto rank_of = [&](int of) { return (of + spec.root) % spec.size; };
    for (int bit = 1; bit < spec.size; bit *= 2) {
      if (v & bit) {
        parent = rank_of(v - bit);
        break;
      }
      if (v + bit < spec.size) children.push_back(rank_of(v + bit));
    }
  }

  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< the smallest subtree first
};

}  // namespace kolo
