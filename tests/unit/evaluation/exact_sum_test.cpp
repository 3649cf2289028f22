// Exact sums: rounded only once, at the end, in any order.
#include "evaluation/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kolo {
namespace {

double exact_sum(const std::vector<double>& numbers) {
  evaluation::ExactSum sum;
  for (const double number : numbers) sum.add(number);
  return sum.value();
}

TEST(ExactSum, OfNothingIsZero) {
  EXPECT_EQ(evaluation::ExactSum().value(), 0);
}

TEST(ExactSum, KeepsWhatAdditionsWouldLose) {
  EXPECT_EQ(exact_sum({1, 1e100, 1, -1e100}), 2);
  const double most = std::numeric_limits<float>::max();
  const double least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(exact_sum({most, least, most, most, -most, least, -most, -most}), 2 * least);
}

TEST(ExactSum, IsRoundedOnceAtTheEnd) {
  const double next = std::nextafter(1.0, 2.0);
  EXPECT_EQ(exact_sum({1, 0x1p-53, 0x1p-110}), next);  // above the midpoint
  EXPECT_EQ(exact_sum({1, 0x1p-53, -0x1p-110}), 1);    // below the midpoint
  EXPECT_EQ(exact_sum({0x1p-110, 0x1p-53, 1}), next);
}

// Floats whose exponents span at most 100 bits are multiples of one power of two, so 128-bit integers give
// the exact sum.
TEST(ExactSum, IsThatOfIntegers) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> numbers;
    __extension__ __int128 integers = 0;
    for (int i = 0; i < 300; ++i) {
      const auto mantissa = static_cast<std::int64_t>(random() % (1u << 25)) - (1 << 24);
      const int exponent = static_cast<int>(random() % 80);
      numbers.push_back(std::ldexp(static_cast<double>(mantissa), exponent));
      integers += __extension__ static_cast<__int128>(mantissa) *
                  (__extension__ static_cast<__int128>(1) << exponent);
    }
    EXPECT_EQ(exact_sum(numbers), static_cast<double>(integers));
    std::ranges::shuffle(numbers, random);
    EXPECT_EQ(exact_sum(numbers), static_cast<double>(integers)) << "in another order";
  }
}

}  // namespace
}  // namespace kolo
