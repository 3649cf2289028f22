#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "bench/row.hpp"

namespace kolo::bench {
namespace {

TEST(BenchStatistics, MedianOfOddAndEven) {
  EXPECT_DOUBLE_EQ(summarize({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(summarize({4, 1, 3, 2}).median, 2.5);
  EXPECT_DOUBLE_EQ(summarize({7}).median, 7);
  EXPECT_DOUBLE_EQ(summarize({}).median, 0);
}

TEST(BenchStatistics, SoManyPercentAreNotAboveAPercentile) {
  std::vector<double> times(100);
  std::iota(times.rbegin(), times.rend(), 1.0);
  EXPECT_DOUBLE_EQ(summarize(times).p95, 95);
  EXPECT_DOUBLE_EQ(summarize(times).min, 1);
  EXPECT_DOUBLE_EQ(summarize(times).p99, 99);
  times.push_back(1000);
  EXPECT_DOUBLE_EQ(summarize(times).p95, 96);
  EXPECT_DOUBLE_EQ(summarize(times).p99, 100);
  for (const std::vector<double>& few : {std::vector<double>{5, 1}, {5}}) {
    EXPECT_DOUBLE_EQ(summarize(few).p95, 5);
    EXPECT_DOUBLE_EQ(summarize(few).p99, 5);
  }
}

TEST(BenchStatistics, Bandwidth) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second(1e9, 1e6), 1);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(1e9, 0), 0);
  const Case what = make_case(Kind::all_reduce, 1'000'000, 4, DType::float32, ReduceOp::sum, true);
  const Row row = make_row("kolo", "shm", "shared", what, {"ring", {400, 500, 600}, 0});
  EXPECT_DOUBLE_EQ(row.algbw, 2);
  EXPECT_DOUBLE_EQ(row.busbw, 3);
}

TEST(BenchStatistics, BandwidthIsThatOfAllTensors) {
  Case what = make_case(Kind::all_reduce, 1'000'000, 4, DType::float32, ReduceOp::sum, true);
  what.tensors = 10;
  const Row row = make_row("kolo", "shm", "shared", what, {"ring", {5000}, 0});
  EXPECT_EQ(row.what.bytes(), 1'000'000u);
  EXPECT_DOUBLE_EQ(row.algbw, 2);
  EXPECT_DOUBLE_EQ(row.busbw, 3);
}

TEST(BenchStatistics, RoundsOfOneAlgorithmAddUp) {
  std::vector<Sample> samples;
  merge(samples, {{"ring", {5, 6}, 0}, {"bcube", {1}, 0}});
  merge(samples, {{"bcube", {9, 9}, 2}});
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].times_us, (std::vector<double>{1, 9, 9}));
  EXPECT_EQ(samples[1].wrong, 2u);
  EXPECT_EQ(best(samples)->algorithm, "ring");
  EXPECT_EQ(best({}), nullptr);
}

TEST(BenchStatistics, TheMeanHasAnIntervalOfWholeStretches) {
  const auto width = [](const std::vector<double>& times) {
    const Interval interval = mean_interval(times);
    const double mean = summarize(times).mean;
    EXPECT_LE(interval.low, mean);
    EXPECT_GE(interval.high, mean);
    return interval.high - interval.low;
  };
  EXPECT_EQ(mean_interval({}).high, 0);
  EXPECT_EQ(width({7}), 0);
  EXPECT_EQ(width(std::vector<double>(1234, 5)), 0);
  // 1s and 2s in turns have a known mean; as many in two long stretches are a machine with two speeds.
  std::vector<double> turns, halves;
  for (int i = 0; i < 10'000; ++i) {
    turns.push_back(1 + i % 2);
    halves.push_back(1 + i / 5000);
  }
  EXPECT_LT(width(turns), 0.01);
  EXPECT_GT(width(halves), 0.2);
}

TEST(BenchStatistics, MidmeanLeavesOutAQuarterAtEachEnd) {
  EXPECT_DOUBLE_EQ(midmean({}), 0);
  EXPECT_DOUBLE_EQ(midmean({5}), 5);
  EXPECT_DOUBLE_EQ(midmean({9, 1, 2}), 4);
  EXPECT_DOUBLE_EQ(midmean({100, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(midmean({100, 1, 3, 2, 4}), 3);
  EXPECT_DOUBLE_EQ(midmean({8, 7, 6, 5, 4, 3, 2, 1}), 4.5);
}

}  // namespace
}  // namespace kolo::bench
