// Borders of buckets from times: the search against all borders, and their price.
#include "gradients/bucket_borders.hpp"

#include <gtest/gtest.h>

#include <random>

namespace kolo::train {
namespace {

/// The earliest end and the fewest groups that reach it, of all borders within the limits.
Borders best_of_all(const std::vector<ReadyGradient>& gradients, const BucketPrice& price,
                    const GroupLimits& limits) {
  Borders best;
  const std::size_t n = gradients.size();
  for (unsigned cuts = 0; cuts < 1u << (n - 1); ++cuts) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < n; ++i) {
      if ((cuts >> (i - 1) & 1) != 0) ends.push_back(i);
    }
    ends.push_back(n);
    bool is_within = true;
    for (std::size_t g = 0, begin = 0; g < ends.size(); begin = ends[g++]) {
      std::uint64_t bytes = 0;
      for (std::size_t i = begin; i + 1 < ends[g]; ++i) bytes += gradients[i].bytes;
      is_within = is_within && (ends[g] == begin + 1 || bytes < (g == 0 ? limits.first : limits.rest));
    }
    if (!is_within) continue;
    const double end = end_of(gradients, ends, price);
    const double tie = 1e-9 * end;
    if (best.ends.empty() || end < best.end - tie || (end < best.end + tie && ends.size() < best.ends.size()))
      best = {ends, end};
  }
  return best;
}

TEST(BucketBorders, AreTheBestOfAll) {
  std::mt19937 random(1);
  const auto below = [&](unsigned most) { return static_cast<unsigned>(random() % most); };
  for (int round = 0; round < 300; ++round) {
    std::vector<ReadyGradient> gradients;
    double ready = 0;
    for (unsigned i = 0; i < 1 + round % 10u; ++i) {
      ready += below(5);
      gradients.push_back({1 + below(40), below(4) == 0 ? DType::float64 : DType::float32, ready});
    }
    const BucketPrice price{0.5 * below(8), 0.25 * below(5)};
    const GroupLimits limits = round % 2 == 0 ? GroupLimits{} : GroupLimits{1 + below(30), 1 + below(80)};
    const Borders found = find_borders(gradients, price, limits);
    const Borders expected = best_of_all(gradients, price, limits);
    EXPECT_NEAR(found.end, expected.end, 1e-9 * (1 + expected.end)) << "round " << round;
    EXPECT_EQ(found.ends.size(), expected.ends.size()) << "round " << round;
    EXPECT_NEAR(end_of(gradients, found.ends, price), found.end, 1e-9 * (1 + found.end));
  }
}

TEST(BucketBorders, KeepWhatTiesTogetherAndTheLateApart) {
  const BucketPrice price{1, 1};
  const std::vector<ReadyGradient> at_once(5, {10, DType::float32, 0});
  EXPECT_EQ(find_borders(at_once, price).ends, (std::vector<std::size_t>{5}));
  auto late = at_once;
  late.back().ready = 100;
  EXPECT_EQ(find_borders(late, price).ends, (std::vector<std::size_t>{4, 5}));
  EXPECT_DOUBLE_EQ(find_borders(late, price).end, 111);
}

TEST(BucketBorders, MergeSmallNeighboursWhereThereAreMany) {
  std::vector<ReadyGradient> gradients;
  for (int i = 0; i < 2000; ++i) gradients.push_back({10, DType::float32, 1.0 * i});
  const BucketPrice price{0.1, 0.09};
  const Borders borders = find_borders(gradients, price);
  EXPECT_EQ(borders.ends.back(), 2000u);
  EXPECT_LT(borders.end, 1999 + 25);  // exact ones expose 1 to 2
}

TEST(BucketPrice, IsTheLineThroughBusyTimes) {
  const BucketPrice price = fit_price(
      std::vector<BusyTime>{{1, 100, 2 + 10}, {3, 9000, 3 * 2 + 900}, {1, 50, 2 + 5}}, BucketPrice{0.5, 7});
  EXPECT_NEAR(price.latency, 2, 1e-9);
  EXPECT_NEAR(price.per_byte, 0.1, 1e-12);
}

TEST(BucketPrice, TakesTheLatencyFromTheExpectationWhereSizesTellNothing) {
  const BucketPrice price =
      fit_price(std::vector<BusyTime>{{1, 1000, 30}, {2, 2000, 60}}, BucketPrice{5, 0.01});
  EXPECT_NEAR(price.latency, 10, 1e-9);
  EXPECT_NEAR(price.per_byte, 0.02, 1e-12);
  const BucketPrice expected = line_through({1, 10, 6}, {1, 110, 16});
  EXPECT_NEAR(expected.latency, 5, 1e-9);
  EXPECT_NEAR(fit_price({}, expected).per_byte, 0.1, 1e-12);
}

TEST(BucketAssignment, FollowsGivenBordersAndKeepsTypesApart) {
  const std::vector<ReadyGradient> sizes{
      {10, DType::float32}, {10, DType::float64}, {10, DType::float32}, {10, DType::float32}};
  const std::vector<std::size_t> order{3, 1, 2, 0}, ends{3, 4};
  EXPECT_EQ(assign_buckets(sizes, order, ends), (std::vector<std::vector<std::size_t>>{{1}, {3, 2}, {0}}));
}

}  // namespace
}  // namespace kolo::train
