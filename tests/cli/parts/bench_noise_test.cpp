// The Gaussian data of a benchmark with a wire format, and the bounds on results.
#include "bench/noise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

namespace kolo::bench {
namespace {

constexpr std::uint64_t kCount = 3 * Noise::kPeriod + 17;
constexpr Wire kWires[] = {Wire::native, Wire::bfloat16, Wire::float16, Wire::int8};

std::vector<std::vector<float>> inputs(Noise& noise, int ranks, std::uint64_t iteration) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks), std::vector<float>(kCount));
  for (int rank = 0; rank < ranks; ++rank)
    noise.fill(all[static_cast<std::size_t>(rank)].data(), kCount, rank, iteration);
  return all;
}

/// The sums in float32, each with a relative error of `off`.
std::vector<float> result(const std::vector<std::vector<float>>& all, float off, float divisor = 1) {
  std::vector<float> sum(kCount);
  for (const auto& one : all) {
    for (std::uint64_t i = 0; i < kCount; ++i) sum[i] += one[i] / divisor;
  }
  for (float& one : sum) one *= 1 + off;
  return sum;
}

TEST(BenchNoise, IsNormalAndNewForEveryRankAndIteration) {
  Noise noise(Wire::int8, ReduceOp::sum, 3);
  const auto all = inputs(noise, 3, 7);
  for (const auto& one : all) {
    double sum = 0, squares = 0;
    for (const float x : one) sum += x, squares += x * x;
    EXPECT_NEAR(sum / kCount, 0, 0.1);
    EXPECT_NEAR(squares / kCount, 1, 0.1);
  }
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[0], inputs(noise, 3, 8)[0]);
}

TEST(BenchNoise, MeasuresHowFarResultsAre) {
  for (const int ranks : {1, 2, 5}) {
    Noise noise(Wire::bfloat16, ReduceOp::sum, ranks);
    const auto all = inputs(noise, ranks, 1);
    Deviation deviation;
    EXPECT_EQ(noise.count_wrong(result(all, 0).data(), kCount, 1, deviation), 0u);
    EXPECT_LT(deviation.rms(), 1e-6);
    Deviation more;
    EXPECT_EQ(noise.count_wrong(result(all, 0.002f).data(), kCount, 1, more), 0u);
    EXPECT_NEAR(more.rms(), 0.002, 1e-5);
    EXPECT_GT(more.most(), more.rms());
    more += deviation;
    EXPECT_NEAR(more.rms(), 0.002 / std::sqrt(2.0), 1e-5);
  }
}

TEST(BenchNoise, FindsWhatIsWrong) {
  for (const Wire wire : kWires) {
    for (const int ranks : {2, 4, 8}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
        const float divisor = op == ReduceOp::average ? static_cast<float>(ranks) : 1;
        Noise noise(wire, op, ranks);
        auto all = inputs(noise, ranks, 3);
        Deviation deviation;
        EXPECT_EQ(noise.count_wrong(result(all, 0, divisor).data(), kCount, 3, deviation), 0u);
        all.back() = all.front();  // one contribution twice, another one missing
        EXPECT_GT(noise.count_wrong(result(all, 0, divisor).data(), kCount, 3, deviation), kCount / 4);
        all.back()[5] = std::nanf("");
        EXPECT_GT(noise.count_wrong(result(all, 0, divisor).data(), kCount, 3, deviation), 0u);
      }
    }
  }
}

TEST(BenchNoise, EveryElementIsInTheHash) {
  for (const std::size_t count : {1, 2, 3, 7, 8}) {
    std::vector<float> result(count, 1.0f);
    const auto hash = [&] { return hash_of(0, std::as_bytes(std::span(result))); };
    const std::uint64_t before = hash();
    for (float& element : result) {
      element = 2;
      EXPECT_NE(hash(), before) << count;
      element = 1;
    }
  }
}

}  // namespace
}  // namespace kolo::bench
