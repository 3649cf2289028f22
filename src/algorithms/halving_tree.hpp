// HalvingTree: a rank's place in the tree of scatter and gather, where every subtree is a range of ranks.
#pragma once

#include <vector>

namespace kolo::algorithms {

/// The root holds the parts of all ranks. A rank that holds a range of n parts, its own among them, keeps
/// ceil(n/2) of them. It gives the rest, on one side of the range, to the first rank of the rest. Both
/// continue in the same way. With any root, no range wraps around, and each rank has its part after ceil(log2
/// N) rounds.
struct HalvingTree {
  HalvingTree(int rank, int size, int root) : end(size) {
    int holder = root;
    int left = 0;  // the range to divide next, which holds `rank`
    int right = size;
    while (right - left > 1) {
      const int rest = (right - left) / 2;
      const bool is_above = holder < right - rest;
      const int from = is_above ? right - rest : left;
      if (rank == holder) children.push_back({from, from, from + rest});
      if (rank >= from && rank < from + rest) {
        parent = holder;
        holder = from;
        left = begin = from;
        right = end = from + rest;
      } else {
        (is_above ? right : left) = is_above ? from : from + rest;
      }
    }
  }

  /// A rank and the range that it gets.
  struct Child {
    int rank;
    int begin;
    int end;
  };

  int parent = -1;  ///< -1: the root
  int begin = 0;    ///< the range that it gets from its parent; the root's is the whole
  int end;
  std::vector<Child> children;  ///< largest range first
};

}  // namespace kolo::algorithms
