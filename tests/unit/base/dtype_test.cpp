// Element types: names, sizes, and the conversions of the 16-bit floating types.
#include "kolo/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace kolo {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint16_t half(float value) {
  return to_float16(value).bits;
}
std::uint16_t brain(float value) {
  return to_bfloat16(value).bits;
}

TEST(DType, NamesAreTheInverseOfParsing) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    DType parsed{};
    EXPECT_TRUE(parse_dtype(name_of(dtype), parsed)) << name_of(dtype);
    EXPECT_EQ(parsed, dtype);
  }
  EXPECT_EQ(name_of(DType::float32), "float32");
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::int8), "int8");
  EXPECT_EQ(name_of(DType::uint64), "uint64");
}

TEST(DType, ParsingTakesNothingElse) {
  DType dtype = DType::int16;
  for (const char* name : {"", "float", "Float32", "float32 ", " float32", "int128", "unknown"}) {
    EXPECT_FALSE(parse_dtype(name, dtype)) << name;
    EXPECT_EQ(dtype, DType::int16) << "left as it was";
  }
}

TEST(DType, SizesMatchTheCppTypes) {
  EXPECT_EQ(size_of(dtype_of<float>), sizeof(float));
  EXPECT_EQ(size_of(dtype_of<double>), sizeof(double));
  EXPECT_EQ(size_of(dtype_of<Float16>), sizeof(Float16));
  EXPECT_EQ(size_of(dtype_of<BFloat16>), sizeof(BFloat16));
  EXPECT_EQ(size_of(dtype_of<std::int8_t>), 1u);
  EXPECT_EQ(size_of(dtype_of<std::uint16_t>), 2u);
  EXPECT_EQ(size_of(dtype_of<std::int32_t>), 4u);
  EXPECT_EQ(size_of(dtype_of<std::uint64_t>), 8u);
  EXPECT_EQ(size_of(dtype_of<long long>), 8u);
  EXPECT_EQ(size_of(dtype_of<bool>), 1u);
  EXPECT_EQ(size_of(dtype_of<std::complex<double>>), 16u);
  EXPECT_EQ(dtype_of<std::byte>, DType::uint8);
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(half(0.0f), 0x0000);
  EXPECT_EQ(half(-0.0f), 0x8000);
  EXPECT_EQ(half(1.0f), 0x3C00);
  EXPECT_EQ(half(-2.0f), 0xC000);
  EXPECT_EQ(half(65504.0f), 0x7BFF);
  EXPECT_EQ(half(0x1p-14f), 0x0400);
  EXPECT_EQ(half(0x1p-24f), 0x0001);
  EXPECT_EQ(half(kInf), 0x7C00);
  EXPECT_EQ(half(-kInf), 0xFC00);
  EXPECT_EQ(to_float(Float16{0x3555}), 0x1.554p-2f);
  EXPECT_EQ(to_float(Float16{0x03FF}), 0x1.ff8p-15f);
}

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const Float16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    const bool nan = (bits & 0x7FFF) > 0x7C00;
    ASSERT_EQ(std::isnan(wide), nan) << bits;
    const std::uint16_t back = half(wide);
    if (nan) {
      ASSERT_GT(back & 0x7FFF, 0x7C00) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(Float16, TiesGoToEvenAndTheRestToTheNearest) {
  // Between every two finite neighbours; the midpoint is exact in float32.
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
    const float low = to_float(Float16{static_cast<std::uint16_t>(bits)});
    const float high = to_float(Float16{static_cast<std::uint16_t>(bits + 1)});
    const float tie = (low + high) / 2;
    ASSERT_EQ(half(tie), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(half(std::nextafter(tie, 0.0f)), bits);
    ASSERT_EQ(half(std::nextafter(tie, kInf)), bits + 1);
    ASSERT_EQ(half(-tie), (bits % 2 == 0 ? bits : bits + 1) | 0x8000);
  }
}

TEST(Float16, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
  EXPECT_EQ(half(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(half(65520.0f), 0x7C00);
  EXPECT_EQ(half(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(half(-1e30f), 0xFC00);
}

TEST(Float16, UnderflowsToZero) {
  EXPECT_EQ(half(0x1p-25f), 0x0000) << "the tie between 0 and the smallest subnormal";
  EXPECT_EQ(half(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(half(-0x1p-26f), 0x8000);
  EXPECT_EQ(half(std::numeric_limits<float>::denorm_min()), 0x0000);
}

TEST(Float16, NaNStaysNaN) {
  EXPECT_TRUE(std::isnan(to_float(to_float16(kNaN))));
  // A NaN whose payload is only in the bits that are cut off.
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0xFFFFFFFFu)))));
}

#if defined(__aarch64__)
using CompilersFloat16 = __fp16;  // g++ 12 for arm64 has no _Float16 in C++
#define HAS_FLOAT16
#elif defined(__FLT16_MANT_DIG__)
using CompilersFloat16 = _Float16;
#define HAS_FLOAT16
#endif
#ifdef HAS_FLOAT16
TEST(Float16, AgreesWithTheCompiler) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto value = std::bit_cast<CompilersFloat16>(static_cast<std::uint16_t>(bits));
    const float wide = to_float(Float16{static_cast<std::uint16_t>(bits)});
    if (std::isnan(wide)) continue;
    ASSERT_EQ(wide, static_cast<float>(value)) << bits;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    // Random bits; half of the numbers have an exponent of float16.
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    if (i % 2) bits = (bits & 0x807FFFFF) | ((100 + bits % 47) << 23);
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(half(value), std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(value))) << value;
  }
}
#endif

TEST(BFloat16, KnownValues) {
  EXPECT_EQ(brain(0.0f), 0x0000);
  EXPECT_EQ(brain(-0.0f), 0x8000);
  EXPECT_EQ(brain(1.0f), 0x3F80);
  EXPECT_EQ(brain(-2.0f), 0xC000);
  EXPECT_EQ(brain(kInf), 0x7F80);
  EXPECT_EQ(brain(-kInf), 0xFF80);
  EXPECT_EQ(to_float(BFloat16{0x4049}), 3.140625f);
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float wide = to_float(BFloat16{static_cast<std::uint16_t>(bits)});
    const bool nan = (bits & 0x7FFF) > 0x7F80;
    ASSERT_EQ(std::isnan(wide), nan) << bits;
    const std::uint16_t back = brain(wide);
    if (nan) {
      ASSERT_GT(back & 0x7FFF, 0x7F80) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(BFloat16, TiesGoToEvenAndTheRestToTheNearest) {
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {  // the last neighbour is infinity
    const std::uint32_t tie = bits << 16 | 0x8000;
    ASSERT_EQ(brain(std::bit_cast<float>(tie)), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(brain(std::bit_cast<float>(tie - 1)), bits);
    ASSERT_EQ(brain(std::bit_cast<float>(tie + 1)), bits + 1);
  }
  EXPECT_EQ(brain(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(brain(std::numeric_limits<float>::denorm_min()), 0x0000);
}

TEST(BFloat16, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu, 0x7FC00000u}) {
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

// Against all 256 numbers, of which the nearest is searched: slow, and independent of the bit arithmetic.
template <typename Number>
void expect_nearest(Number (*convert)(float), float largest, float above) {
  std::vector<Number> finite;
  for (int bits = 0; bits < 256; ++bits) {
    const Number number{static_cast<std::uint8_t>(bits)};
    const float value = to_float(number);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(convert(value).bits, bits);
    EXPECT_LE(std::abs(value), largest);
    finite.push_back(number);
  }
  const auto check = [&](float value) {
    Number best = finite[0];
    for (const Number number : finite) {
      if (std::signbit(to_float(number)) != std::signbit(value)) continue;
      const double off = std::abs(double{value} - double{to_float(number)});
      const double least = std::abs(double{value} - double{to_float(best)});
      if (std::signbit(to_float(best)) != std::signbit(value) || off < least ||
          (off == least && number.bits % 2 == 0))
        best = number;
    }
    const Number got = convert(value);
    if (std::abs(value) < above) {
      EXPECT_EQ(got.bits, best.bits) << value;
    } else {
      EXPECT_FALSE(std::isfinite(to_float(got))) << value;
    }
  };
  for (const Number low : finite) {
    for (const int up : {1, 2}) {  // the ties between neighbours, and beside them
      const float tie =
          to_float(low) + static_cast<float>(up) *
                              (to_float(Number{static_cast<std::uint8_t>(low.bits + 1)}) - to_float(low)) / 2;
      if (!std::isfinite(tie)) continue;
      for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)}) check(value);
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = (static_cast<std::uint32_t>(random()) & 0x807FFFFF) | ((100 + i % 47) << 23);
    check(std::bit_cast<float>(bits));
  }
  for (const float value : {above, std::nextafter(above, 0.0f), -above, 1e30f, kInf, -kInf}) check(value);
}

TEST(Float8, IsTheNearestNumber) {
  expect_nearest(to_float8_e4m3fn, 448, std::nextafter(464.0f, kInf));
  expect_nearest(to_float8_e5m2, 57344, 61440);
}

TEST(Float8, KnownValues) {
  EXPECT_EQ(to_float8_e4m3fn(1).bits, 0x38);
  EXPECT_EQ(to_float8_e4m3fn(-448).bits, 0xFE);
  EXPECT_EQ(to_float8_e4m3fn(0x1p-9f).bits, 0x01);
  EXPECT_EQ(to_float8_e5m2(1).bits, 0x3C);
  EXPECT_EQ(to_float8_e5m2(0x1p-16f).bits, 0x01);
  EXPECT_EQ(to_float8_e5m2(-1e9f).bits, 0xFC) << "infinity";
  // e4m3fn has no infinity, and one NaN of each sign.
  EXPECT_EQ(to_float8_e4m3fn(kInf).bits, 0x7F);
  EXPECT_EQ(to_float8_e4m3fn(-1e9f).bits, 0xFF);
  EXPECT_TRUE(std::isnan(to_float(Float8E4M3FN{0x7F})));
  for (const float nan : {kNaN, std::bit_cast<float>(0x7F800001u), std::bit_cast<float>(0xFFFFFFFFu)}) {
    EXPECT_TRUE(std::isnan(to_float(to_float8_e4m3fn(nan))));
    EXPECT_TRUE(std::isnan(to_float(to_float8_e5m2(nan))));
  }
}

}  // namespace
}  // namespace kolo
