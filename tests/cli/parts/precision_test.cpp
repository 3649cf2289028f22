// kolo precision: the data that it draws, and the errors that it finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "precision/contributions.hpp"
#include "precision/sum_error.hpp"

namespace kolo::precision {
namespace {

constexpr double kUnit = 0x1p-24;

/// The contributions to one element, by rank.
std::vector<float> column(const std::vector<std::vector<float>>& contributions, std::uint64_t index) {
  std::vector<float> numbers;
  for (const std::vector<float>& of_rank : contributions) numbers.push_back(of_rank[index]);
  return numbers;
}

TEST(Contributions, AreTheSameForASeedAndOthersForAnother) {
  const Contributions what{.ranks = 3, .count = 50};
  EXPECT_EQ(what.draw(1), what.draw(1));
  EXPECT_NE(what.draw(1), what.draw(2));
  EXPECT_NE(what.draw(1)[0], what.draw(1)[1]);
}

TEST(Contributions, StandInTheOrderOfTheirMagnitudes) {
  const auto larger = [](float a, float b) { return std::abs(a) > std::abs(b); };
  for (const Data data : {Data::normal, Data::positive, Data::cancelling, Data::one_large}) {
    Contributions what{.data = data, .order = Order::descending, .ranks = 9, .count = 20};
    const auto descending = what.draw(3);
    what.order = Order::ascending;
    const auto ascending = what.draw(3);
    for (std::uint64_t i = 0; i < what.count; ++i) {
      const std::vector<float> down = column(descending, i);
      EXPECT_TRUE(std::ranges::is_sorted(down, larger));
      std::vector<float> up = column(ascending, i);
      EXPECT_TRUE(std::is_sorted(up.rbegin(), up.rend(), larger));
      EXPECT_TRUE(std::ranges::is_permutation(down, up));
    }
  }
}

TEST(Contributions, HaveTheLargeOnesThatTheirNameSays) {
  for (const int ranks : {2, 3, 8}) {
    std::vector<int> first_at(static_cast<std::size_t>(ranks));
    const auto cancelling = Contributions{.data = Data::cancelling, .ranks = ranks, .count = 200}.draw(1);
    const auto one_large = Contributions{.data = Data::one_large, .ranks = ranks, .count = 200}.draw(1);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::vector<float> two = column(cancelling, i), one = column(one_large, i);
      EXPECT_EQ(std::ranges::count(two, kLarge), 1);
      EXPECT_EQ(std::ranges::count(two, -kLarge), 1);
      EXPECT_EQ(std::ranges::count(one, kLarge), 1);
      ++first_at[static_cast<std::size_t>(std::ranges::find(two, kLarge) - two.begin())];
    }
    for (const int times : first_at) EXPECT_GT(times, 0) << "at every rank now and then";
  }
}

TEST(Contributions, AreNumbersOfTheirType) {
  const auto numbers = Contributions{.element = DType::bfloat16, .ranks = 2, .count = 100}.draw(1);
  for (const float number : numbers[1]) EXPECT_EQ(to_float(to_bfloat16(number)), number);
}

TEST(SumError, IsInUnitsOfTheRoundoffTimesTheMagnitudes) {
  const std::vector<std::vector<float>> contributions = {{1, 3}, {-2, 1}, {5, 0}};
  const SumError exact = error_of(std::vector<float>{4, 4}, contributions, kUnit);
  EXPECT_EQ(exact.largest_units, 0);
  EXPECT_EQ(exact.relative.rms(), 0);

  const SumError off = error_of(std::vector<float>{4 + 0x1p-20f, 4}, contributions, kUnit);
  EXPECT_DOUBLE_EQ(off.largest_units, 16.0 / 8);  // 2^-20 is 16 u, the magnitudes add up to 8
  EXPECT_DOUBLE_EQ(off.mean_units(), 1);
  EXPECT_DOUBLE_EQ(off.rms_units(), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(off.relative.rms(), 0x1p-20 / std::sqrt(32.0));

  SumError both = exact;
  both += off;
  EXPECT_DOUBLE_EQ(both.mean_units(), 0.5);
  EXPECT_DOUBLE_EQ(both.largest_units, 2);
}

// In double, 2^60 + 1 - 2^60 is 0: the error would be missed.
TEST(SumError, IsOfTheExactSum) {
  const std::vector<std::vector<float>> contributions = {{0x1p60f}, {1}, {-0x1p60f}};
  EXPECT_DOUBLE_EQ(error_of(std::vector<float>{0}, contributions, kUnit).relative.rms(), 1);
  EXPECT_EQ(error_of(std::vector<float>{1}, contributions, kUnit).relative.rms(), 0);
}

TEST(SumError, CountsOverflowsApart) {
  const std::vector<std::vector<float>> contributions = {{1, 1}, {1, 1}};
  const std::vector<float> sums = {std::numeric_limits<float>::infinity(), 2};
  const SumError error = error_of(sums, contributions, kUnit);
  EXPECT_EQ(error.infinite, 1u);
  EXPECT_EQ(error.relative.count, 1);
  EXPECT_EQ(error.rms_units(), 0);
}

}  // namespace
}  // namespace kolo::precision
