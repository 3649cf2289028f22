#include "bench/compare.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace kolo::bench {
namespace {

TEST(BenchCompare, IsTheMedianOfTheRatiosOfEachRound) {
  // The second round is ten times slower for both: the ratios do not see it.
  const Ratio ratio = compare({2, 20, 3}, {1, 10, 2});
  EXPECT_DOUBLE_EQ(ratio.median, 2);
  EXPECT_DOUBLE_EQ(ratio.low, 1.5);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
}

TEST(BenchCompare, LeavesOutAsManyAsTheSignTestAllows) {
  std::vector<double> times, ones;
  const auto with_rounds = [&](int rounds) {
    times.clear();
    for (int r = 1; r <= rounds; ++r) times.push_back(r);
    ones.assign(times.size(), 1);
    return compare(times, ones);
  };
  // The tables of the sign test: 95 % lie between the 4th and the 12th of 15, the 6th and the 16th of 21.
  EXPECT_DOUBLE_EQ(with_rounds(15).low, 4);
  EXPECT_DOUBLE_EQ(with_rounds(15).high, 12);
  EXPECT_DOUBLE_EQ(with_rounds(21).low, 6);
  EXPECT_DOUBLE_EQ(with_rounds(21).high, 16);
  for (const int rounds : {1, 2, 5, 6, 7, 8}) {
    EXPECT_DOUBLE_EQ(with_rounds(rounds).low, 1) << rounds;
    EXPECT_DOUBLE_EQ(with_rounds(rounds).high, rounds) << rounds;
  }
  EXPECT_DOUBLE_EQ(with_rounds(9).low, 2);
}

TEST(BenchCompare, OfTheSameIsOne) {
  const Ratio ratio = compare({3, 5, 4, 3, 8, 9}, {3, 5, 4, 3, 8, 9});
  EXPECT_DOUBLE_EQ(ratio.low, 1);
  EXPECT_DOUBLE_EQ(ratio.median, 1);
  EXPECT_DOUBLE_EQ(ratio.high, 1);
}

}  // namespace
}  // namespace kolo::bench
