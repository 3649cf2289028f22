// The two trees of double_tree: their shape, their colours, and the number of steps of the pipeline over
// them.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "algorithms/two_trees.hpp"
#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

TEST(TwoTrees, SpanAllRanksWithFewLevels) {
  for (int size = 1; size <= 130; ++size) {
    const algorithms::TwoTrees trees(size);
    for (const unsigned tree : {0u, 1u}) {
      int roots = 0;
      for (int rank = 0; rank < size; ++rank) {
        roots += trees.parent(tree, rank) < 0 ? 1 : 0;
        EXPECT_LT(trees.depth(tree, rank), std::bit_width(static_cast<unsigned>(size)));
        EXPECT_LE(trees.children(tree, rank).size(), 2u);
      }
      EXPECT_EQ(roots, 1) << size;
    }
  }
}

TEST(TwoTrees, AreLeavesWhereTheOtherIsInner) {
  for (int size = 1; size <= 130; ++size) {
    const algorithms::TwoTrees trees(size);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(trees.children(0, rank).empty() || trees.children(1, rank).empty())
          << "rank " << rank << " of " << size;
    }
  }
}

TEST(TwoTrees, ColourTheEdgesOfARankDifferently) {
  for (int size = 1; size <= 130; ++size) {
    const algorithms::TwoTrees trees(size);
    for (int rank = 0; rank < size; ++rank) {
      if (trees.parent(0, rank) >= 0 && trees.parent(1, rank) >= 0) {
        EXPECT_NE(trees.colour(0, rank), trees.colour(1, rank)) << "rank " << rank << " of " << size;
      }
      std::multiset<int> below;
      for (const unsigned tree : {0u, 1u}) {
        for (const int child : trees.children(tree, rank)) below.insert(trees.colour(tree, child));
      }
      EXPECT_LE(below.count(0), 1u) << "rank " << rank << " of " << size;
      EXPECT_LE(below.count(1), 1u) << "rank " << rank << " of " << size;
    }
  }
}

// Both trees together take four steps for each further piece, for any number of ranks. These are the messages
// that a rank must send in any case.
TEST(DoubleTree, TakesFourStepsForEveryFurtherPiece) {
  const auto steps = [](int size, int chunks) {
    const auto schedules =
        all_ranks(algorithms::parse_algorithm(schedule::Collective::all_reduce,
                                              "double_tree:chunks=" + std::to_string(chunks))
                      .value(),
                  size);
    return schedule::count_totals(schedules,
                                  std::vector<std::uint64_t>(schedule::part_count(schedules[0]), 1))
        .steps;
  };
  for (const int size : {4, 5, 6, 7, 8, 13, 16, 23, 32, 33, 60}) {
    EXPECT_EQ(steps(size, 50), steps(size, 20) + 4 * 30) << size;
    EXPECT_LE(steps(size, 50), 4 * (49 + std::bit_width(static_cast<unsigned>(size)) - 1)) << size;
  }
}

}  // namespace
}  // namespace kolo
