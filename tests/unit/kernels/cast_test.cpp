// Conversions between the floating types, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/targets.hpp"
#include "unit/kernels/arrays.hpp"

namespace kolo::kernels {
namespace {

using testing::Array;
using testing::fill;
using testing::floating_at;
using testing::same;

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

/// The number of `dtype` nearest to `value`, found by comparing both neighbours: slow, and independent of the
/// bit arithmetic under test. `step` is the spacing of the 16-bit type at `value`.
double nearest_by_search(DType dtype, double value) {
  const int digits = dtype == DType::float16 ? 11 : 8;
  const int lowest = dtype == DType::float16 ? -14 : -126;
  const int highest = dtype == DType::float16 ? 15 : 127;
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), lowest);
  const double step = std::ldexp(1.0, exponent - digits + 1);
  const double scaled = value / step;  // exact: a power of two
  const double below = std::floor(scaled);
  const double rest = scaled - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0);
  const double rounded = (up ? below + 1 : below) * step;
  const double limit = std::ldexp(1.0, highest + 1);
  return std::fabs(rounded) >= limit ? std::copysign(INFINITY, value) : std::copysign(rounded, value);
}

/// The bits of the value of a 16-bit type, or of float32, through the exact double.
void store_exact(DType dtype, double value, void* array, std::size_t i) {
  const float f = static_cast<float>(value);
  const Float16 h = to_float16(f);
  const BFloat16 b = to_bfloat16(f);
  auto* at = static_cast<std::uint8_t*>(array) + i * size_of(dtype);
  switch (dtype) {
    case DType::float32:
      std::memcpy(at, &f, sizeof f);
      return;
    case DType::float16:
      std::memcpy(at, &h, sizeof h);
      return;
    case DType::bfloat16:
      std::memcpy(at, &b, sizeof b);
      return;
    default:
      std::memcpy(at, &value, sizeof value);
  }
}

void expect_cast(DType to, DType from, const Array& in, std::size_t count, std::size_t offset) {
  Array out(count * size_of(to), offset);
  Array expected(count * size_of(to), 0);
  for (std::size_t i = 0; i < count; ++i) {
    const double exact = floating_at(from, in.data(), i);
    const bool narrow = to == DType::float16 || to == DType::bfloat16;
    store_exact(to, narrow ? nearest_by_search(to, exact) : exact, expected.data(), i);
  }
  cast_function(to, from)(out.data(), in.data(), count);
  EXPECT_TRUE(same(to, out.data(), expected.data(), count))
      << name_of(from) << " to " << name_of(to) << ", " << count << " elements";
  EXPECT_TRUE(out.guards_intact());
}

class Casts : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(use_target(GetParam())); }
  void TearDown() override { use_target(""); }
};

TEST_P(Casts, RoundToNearestEven) {
  for (const DType from : kFloating) {
    for (const DType to : kFloating) {
      ASSERT_NE(cast_function(to, from), nullptr);
      for (const std::size_t count : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 4099}) {
        for (const std::size_t offset : {0, 1, 6}) {
          Array in(count * size_of(from), offset + 2);
          fill(from, in.data(), count, count + offset);
          expect_cast(to, from, in, count, offset);
        }
      }
    }
  }
}

/// Around every tie between neighbouring 16-bit numbers: the tie itself and the next float64 on either side,
/// where rounding through float32 gives a wrong result.
TEST_P(Casts, RoundFloat64OnceAtTheTies) {
  for (const DType to : {DType::float16, DType::bfloat16}) {
    std::vector<double> values;
    for (std::uint16_t bits = 0; bits < 0x7F80; bits += 2) {
      const double low = floating_at(to, std::array<std::uint16_t, 4>{bits}.data(), 0);
      const double high = floating_at(to, std::array<std::uint16_t, 4>{++bits}.data(), 0);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      const double tie = (low + high) / 2;
      for (const double value : {tie, std::nextafter(tie, low), std::nextafter(tie, high)}) {
        values.push_back(value);
        values.push_back(-value);
      }
    }
    const double overflow = to == DType::float16 ? 65520.0 : 0x1.FFp127;
    for (const double value : {overflow, std::nextafter(overflow, 0), 1e300, -1e300, 1e-300, 5e-324}) {
      values.push_back(value);
    }
    Array in(values.size() * sizeof(double), 0);
    std::memcpy(in.data(), values.data(), in.bytes());
    expect_cast(to, DType::float64, in, values.size(), 0);
  }
}

TEST_P(Casts, WidenEverySixteenBitNumber) {
  for (const DType from : {DType::float16, DType::bfloat16}) {
    Array in(2 * 65536, 0);
    for (int i = 0; i < 65536; ++i) {
      const std::uint16_t bits = static_cast<std::uint16_t>(i);
      std::memcpy(static_cast<std::uint8_t*>(in.data()) + 2 * i, &bits, 2);
    }
    for (const DType to : kFloating) expect_cast(to, from, in, 65536, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Casts, ::testing::ValuesIn(supported_targets()),
                         [](const auto& info) { return info.param; });

TEST(CastLookup, OnlyBetweenFloatingTypes) {
  EXPECT_EQ(cast_function(DType::int32, DType::float32), nullptr);
  EXPECT_EQ(cast_function(DType::float32, DType::int8), nullptr);
  EXPECT_EQ(cast_function(DType::uint8, DType::uint8), nullptr);
}

}  // namespace
}  // namespace kolo::kernels
