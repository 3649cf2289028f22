// TwoTrees: two binary trees over all ranks; a rank that is inner in one is a leaf of the other.
#pragma once

#include <array>
#include <vector>

namespace kolo::algorithms {

/// P. Sanders, J. Speck, J. L. Traff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
/// Parallel Computing 35 (2009). In the first tree odd places are leaves and even places are inner. In the
/// second tree the ranks are in reverse order (N even) or shifted by one place (N odd), so leaves and inner
/// places are exchanged. Every edge, named by its tree and its child, has a colour, 0 or 1. The edges to the
/// two parents of a rank have different colours, and so have those to its children. So in a step that uses
/// one colour, up or down, every rank sends at most one message and receives at most one.
class TwoTrees {
 public:
  /// Takes time proportional to `size`.
  explicit TwoTrees(int size);

  /// The parent; -1 for the root.
  int parent(unsigned tree, int rank) const { return parents_[tree][static_cast<std::size_t>(rank)]; }
  /// The colour of the edge to the parent.
  int colour(unsigned tree, int rank) const { return colours_[tree][static_cast<std::size_t>(rank)]; }
  std::vector<int> children(unsigned tree, int rank) const;
  /// Number of edges to the root, at most floor(log2 N).
  int depth(unsigned tree, int rank) const;

 private:
  void find_colours();

  std::array<std::vector<int>, 2> parents_;  // of each rank
  std::array<std::vector<int>, 2> colours_;
};

}  // namespace kolo::algorithms
