#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace kolo::bench {
namespace {

TEST(BenchCompare, IsTheRatioOfTheMidmeans) {
  // Two of eight times are left out at each end.
  const Ratio ratio = compare({2, 20, 3, 4, 3, 4, 1, 0.1}, {1, 10, 2, 2, 2, 2, 1, 0.1});
  EXPECT_DOUBLE_EQ(ratio.ratio, (2 + 3 + 3 + 4) / (1 + 2 + 2 + 2.0));
}

TEST(BenchCompare, BoundsEncloseTheRatioAndNarrowWithRounds) {
  std::vector<double> times, ones;
  double width = 4;
  for (const int rounds : {8, 32, 128}) {
    times.clear();
    for (int r = 0; r < rounds; ++r) times.push_back(1 + r % 4);
    ones.assign(times.size(), 1);
    const Ratio ratio = compare(times, ones);
    EXPECT_DOUBLE_EQ(ratio.ratio, 2.5) << rounds;
    EXPECT_LT(ratio.low, 2.5) << rounds;
    EXPECT_GT(ratio.high, 2.5) << rounds;
    EXPECT_LT(ratio.high - ratio.low, width) << rounds;
    width = ratio.high - ratio.low;
  }
}

TEST(BenchCompare, WhatSlowsBothInARoundDoesNotWidenTheBounds) {
  std::vector<double> times, others;
  for (int r = 0; r < 21; ++r) {
    others.push_back(1 + r % 3);
    times.push_back(2 * others.back());
  }
  const Ratio ratio = compare(times, others);
  EXPECT_DOUBLE_EQ(ratio.low, 2);
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
}

TEST(BenchCompare, OneRoundHasNoWidth) {
  const Ratio ratio = compare({3}, {2});
  EXPECT_DOUBLE_EQ(ratio.low, 1.5);
  EXPECT_DOUBLE_EQ(ratio.ratio, 1.5);
  EXPECT_DOUBLE_EQ(ratio.high, 1.5);
}

}  // namespace
}  // namespace kolo::bench
