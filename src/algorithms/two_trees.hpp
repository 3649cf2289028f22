// TwoTrees: two binary trees over all ranks, such that who is inner in one is a leaf of the other.
#pragma once

#include <array>
#include <vector>

namespace kolo {

/// P. Sanders, J. Speck, J. L. Traff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
/// Parallel Computing 35 (2009). In the first tree odd places are leaves and even ones are
/// inner; in the second the ranks stand the other way around (N even) or one place on (N odd), so that places
/// change sides. Every edge, known by its tree and its child, has a colour, 0 or 1: the edges to the two
/// parents of a rank differ, and those to its children differ. So in a step in which one colour is used, up
/// or down, every rank sends at most one message and receives at most one.
class TwoTrees {
 public:
  /// Takes time in proportion to `size`.
  explicit TwoTrees(int size);

  /// -1: the root.
  int parent(unsigned tree, int rank) const { return parents_[tree][static_cast<std::size_t>(rank)]; }
  /// Of the edge to the parent.
  int colour(unsigned tree, int rank) const { return colours_[tree][static_cast<std::size_t>(rank)]; }
  std::vector<int> children(unsigned tree, int rank) const;
  /// Edges to the root, at most floor(log2 N).
  int depth(unsigned tree, int rank) const;

 private:
  void find_colours();

  std::array<std::vector<int>, 2> parents_;  // of each rank
  std::array<std::vector<int>, 2> colours_;
};

}  // namespace kolo
