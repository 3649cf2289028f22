// The plain loops, compared with values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernels.hpp"

namespace kolo::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::vector<T> reduce(ReduceOp op, const std::vector<T>& left, const std::vector<T>& right) {
  std::vector<T> out(left.size());
  reference::reduce(dtype_of<T>, op, out.data(), left.data(), right.data(), left.size());
  return out;
}

template <typename T>
std::vector<T> average(const std::vector<T>& left, const std::vector<T>& right, std::uint64_t divisor) {
  std::vector<T> out(left.size());
  reference::average(dtype_of<T>, out.data(), left.data(), right.data(), left.size(), divisor);
  return out;
}

template <typename T>
using Values = std::vector<T>;

TEST(Reference, SumsAndProductsOfIntegersWrap) {
  EXPECT_EQ(reduce<std::int8_t>(ReduceOp::sum, {100, -100, 127}, {100, -100, 1}),
            (Values<std::int8_t>{-56, 56, -128}));
  EXPECT_EQ(reduce<std::uint8_t>(ReduceOp::sum, {255}, {2}), (Values<std::uint8_t>{1}));
  EXPECT_EQ(reduce<std::int8_t>(ReduceOp::product, {16, -128, 7}, {16, -1, -3}),
            (Values<std::int8_t>{0, -128, -21}));
  EXPECT_EQ(reduce<std::int16_t>(ReduceOp::product, {300, -32768}, {300, -1}),
            (Values<std::int16_t>{24464, -32768}));
  EXPECT_EQ(reduce<std::uint16_t>(ReduceOp::product, {65535}, {65535}), (Values<std::uint16_t>{1}));
  EXPECT_EQ(reduce<std::int32_t>(ReduceOp::sum, {2147483647}, {1}), (Values<std::int32_t>{-2147483647 - 1}));
  EXPECT_EQ(reduce<std::uint32_t>(ReduceOp::product, {65537}, {65537}), (Values<std::uint32_t>{131073}));
  EXPECT_EQ(reduce<std::int64_t>(ReduceOp::product, {1ll << 62, -3}, {4, 5}), (Values<std::int64_t>{0, -15}));
  EXPECT_EQ(reduce<std::uint64_t>(ReduceOp::sum, {~0ull}, {2}), (Values<std::uint64_t>{1}));
}

TEST(Reference, BooleansKnowOrAndAnd) {
  const bool left[] = {false, false, true, true}, right[] = {false, true, false, true};
  const auto all = [&](ReduceOp op) {
    bool out[4];
    reference::reduce(DType::boolean, op, out, left, right, 4);
    return std::vector<bool>(out, out + 4);
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or})
    EXPECT_EQ(all(op), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(all(ReduceOp::bit_xor), (std::vector<bool>{false, true, true, false}));
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and})
    EXPECT_EQ(all(op), (std::vector<bool>{false, false, false, true}));
}

TEST(Reference, Bits) {
  EXPECT_EQ(reduce<std::int8_t>(ReduceOp::bit_and, {-4, 12}, {7, 10}), (Values<std::int8_t>{4, 8}));
  EXPECT_EQ(reduce<std::uint32_t>(ReduceOp::bit_or, {0xF0000000, 12}, {7, 10}),
            (Values<std::uint32_t>{0xF0000007, 14}));
  EXPECT_EQ(reduce<std::int64_t>(ReduceOp::bit_xor, {-1, 12}, {7, 10}), (Values<std::int64_t>{-8, 6}));
}

TEST(Reference, ComplexNumbers) {
  using C = std::complex<float>;
  EXPECT_EQ(reduce<C>(ReduceOp::sum, {{1, 2}}, {{3, -5}}), (Values<C>{{4, -3}}));
  EXPECT_EQ(reduce<C>(ReduceOp::product, {{1, 2}, {0, 1}}, {{3, -5}, {0, 1}}), (Values<C>{{13, 1}, {-1, 0}}));
  EXPECT_EQ(average<C>({{1, 2}}, {{3, -5}}, 4), (Values<C>{{1, -0.75f}}));
  using D = std::complex<double>;
  EXPECT_EQ(reduce<D>(ReduceOp::product, {{1, 2}}, {{3, -5}}), (Values<D>{{13, 1}}));
}

TEST(Reference, MinAndMaxHeedTheSign) {
  EXPECT_EQ(reduce<std::int8_t>(ReduceOp::min, {-1, 3}, {1, 2}), (Values<std::int8_t>{-1, 2}));
  EXPECT_EQ(reduce<std::uint8_t>(ReduceOp::min, {255, 3}, {1, 2}), (Values<std::uint8_t>{1, 2}));
  EXPECT_EQ(reduce<std::int64_t>(ReduceOp::max, {-1, 3}, {1, 2}), (Values<std::int64_t>{1, 3}));
  EXPECT_EQ(reduce<std::uint64_t>(ReduceOp::max, {~0ull, 3}, {1, 2}), (Values<std::uint64_t>{~0ull, 3}));
}

TEST(Reference, FloatsFollowIeee754) {
  EXPECT_EQ(reduce<float>(ReduceOp::sum, {1, 0.1f, kInf, 3e38f}, {2, 0.2f, 1, 3e38f}),
            (Values<float>{3, 0.1f + 0.2f, kInf, kInf}));
  EXPECT_EQ(reduce<double>(ReduceOp::product, {3, 1e308, 5e-324}, {-2, 10, 0.5}),
            (Values<double>{-6, std::numeric_limits<double>::infinity(), 0}));
  EXPECT_TRUE(std::isnan(reduce<float>(ReduceOp::sum, {kInf}, {-kInf})[0]));
  EXPECT_TRUE(std::isnan(reduce<float>(ReduceOp::product, {kInf}, {0})[0]));
}

TEST(Reference, MinAndMaxPropagateNaNFromEitherSide) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    for (const float value : reduce<float>(op, {kNaN, 1, kNaN, kNaN, -kInf}, {1, kNaN, kNaN, kInf, kNaN})) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
  EXPECT_EQ(reduce<float>(ReduceOp::min, {kInf, -kInf, 2}, {1, 1, 3}), (Values<float>{1, -kInf, 2}));
  EXPECT_EQ(reduce<float>(ReduceOp::max, {kInf, -kInf, 2}, {1, 1, 3}), (Values<float>{kInf, 1, 3}));
}

TEST(Reference, SixteenBitsAreComputedIn32AndRoundedOnce) {
  const auto half = [](float value) { return to_float16(value); };
  // 2048 + 1 lies between 2048 and 2050: the tie goes to the even mantissa; 2050 + 1 goes up.
  const auto sums = reduce<Float16>(ReduceOp::sum, {half(2048), half(2050), half(65504), half(65504)},
                                    {half(1), half(1), half(15), half(16)});
  EXPECT_EQ(to_float(sums[0]), 2048);
  EXPECT_EQ(to_float(sums[1]), 2052);
  EXPECT_EQ(to_float(sums[2]), 65504);
  EXPECT_EQ(to_float(sums[3]), kInf);
  // The sum 65504 + 65504 overflows float16, but the average does not.
  EXPECT_EQ(to_float(average<Float16>({half(65504)}, {half(65504)}, 2)[0]), 65504);

  const auto brain = [](float value) { return to_bfloat16(value); };
  EXPECT_EQ(to_float(reduce<BFloat16>(ReduceOp::sum, {brain(256)}, {brain(1)})[0]), 256);
  EXPECT_EQ(to_float(reduce<BFloat16>(ReduceOp::sum, {brain(258)}, {brain(1)})[0]), 260);
  EXPECT_EQ(to_float(average<BFloat16>({brain(256)}, {brain(1)}, 257)[0]), 1);
}

TEST(Reference, Float16IsScaledByAPowerOfTwo) {
  const auto scaled = [](float value, std::uint64_t divisor) {
    const Float16 in = to_float16(value);
    Float16 out{};
    reference::scale(DType::float16, &out, &in, 1, average_scale(2, divisor));
    return to_float(out);
  };
  EXPECT_EQ(scaled(3, 1), 3);
  EXPECT_EQ(scaled(3, 2), 3);
  EXPECT_EQ(scaled(3, 3), 1.5f);
  EXPECT_EQ(scaled(3, 5), 0.75f);
  EXPECT_EQ(scaled(3, 6), 0.375f);
  EXPECT_EQ(to_float(average<Float16>({to_float16(0.75f)}, {to_float16(0.75f)}, 3)[0]), 1);
}

// Bound for any order of addition: rounding is monotonic, so no sum of k numbers exceeds `most[k]`, the
// largest rounded sum of k largest numbers.
template <typename T>
void expect_no_overflow(T largest_number) {
  const DType dtype = dtype_of<T>;
  const float limit = to_float(largest_number);
  for (std::uint64_t ranks = 2; ranks <= 200; ++ranks) {
    std::vector<T> most(ranks, largest_number);
    reference::scale(dtype, most.data(), most.data(), 2, average_scale(sizeof(T), ranks));
    const auto largest = [&](std::uint64_t k) {
      std::uint64_t best = 1;
      for (std::uint64_t i = 1; i <= k / 2; ++i) {
        if (to_float(most[i]) + to_float(most[k - i]) > to_float(most[best]) + to_float(most[k - best]))
          best = i;
      }
      return std::pair(most[best], most[k - best]);
    };
    for (std::uint64_t k = 2; k < ranks; ++k) {
      const auto [left, right] = largest(k);
      reference::reduce(dtype, ReduceOp::sum, &most[k], &left, &right, 1);
      ASSERT_LE(to_float(most[k]), limit) << name_of(dtype) << ", " << k << " of " << ranks;
    }
    const auto [left, right] = largest(ranks);
    EXPECT_LE(to_float(average<T>({left}, {right}, ranks)[0]), limit) << name_of(dtype) << ", " << ranks;
  }
}

TEST(Reference, NoSumOnTheWayToAnAverageOverflows) {
  expect_no_overflow(to_float16(65504));
  expect_no_overflow(to_float8_e4m3fn(448));
  expect_no_overflow(to_float8_e5m2(57344));
}

TEST(Reference, EightBitsAreComputedIn32AndRoundedOnce) {
  const auto e4m3 = [](float value) { return to_float8_e4m3fn(value); };
  // 16 + 1 lies between 16 and 18: the tie goes to the even mantissa; 18 + 1 goes up.
  const auto sums =
      reduce<Float8E4M3FN>(ReduceOp::sum, {e4m3(16), e4m3(18), e4m3(448), e4m3(448), e4m3(-448)},
                           {e4m3(1), e4m3(1), e4m3(16), e4m3(18), e4m3(-448)});
  EXPECT_EQ(to_float(sums[0]), 16);
  EXPECT_EQ(to_float(sums[1]), 20);
  EXPECT_EQ(to_float(sums[2]), 448);
  EXPECT_TRUE(std::isnan(to_float(sums[3])));
  EXPECT_TRUE(std::isnan(to_float(sums[4])));
  EXPECT_EQ(to_float(average<Float8E4M3FN>({e4m3(448)}, {e4m3(448)}, 2)[0]), 448);

  const auto e5m2 = [](float value) { return to_float8_e5m2(value); };
  EXPECT_EQ(to_float(reduce<Float8E5M2>(ReduceOp::sum, {e5m2(8)}, {e5m2(1)})[0]), 8);
  EXPECT_EQ(to_float(reduce<Float8E5M2>(ReduceOp::sum, {e5m2(57344)}, {e5m2(4096)})[0]), kInf);
  EXPECT_EQ(to_float(reduce<Float8E5M2>(ReduceOp::sum, {e5m2(57344)}, {e5m2(3584)})[0]), 57344);
}

TEST(Reference, AveragesAreDividedOnce) {
  EXPECT_EQ(average<float>({1, 3}, {2, 1}, 4), (Values<float>{0.75f, 1}));
  EXPECT_EQ(average<double>({1}, {0}, 3), (Values<double>{1.0 / 3.0}));
}

}  // namespace
}  // namespace kolo::kernels
