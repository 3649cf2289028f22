// How formats round.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compression/codec.hpp"
#include "train/compression/replicas.hpp"

namespace kolo::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> there_and_back(const Codec& codec, const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(codec.bytes_for(numbers.size()) + 1, std::byte{0x5A});
  codec.encode(numbers, bytes.data());
  EXPECT_EQ(bytes.back(), std::byte{0x5A}) << codec.name() << " writes more than it said";
  std::vector<float> result(numbers.size());
  codec.decode(bytes.data(), result);
  return result;
}

float there_and_back(const Codec& codec, float number) {
  return there_and_back(codec, std::vector<float>{number})[0];
}

TEST(Codecs, Float16RoundsToNearestEven) {
  const auto codec = make_codec(GradientFormat::float16);
  for (int bits = 0; bits < 0x7C00; ++bits) {
    // Every finite float16, and half way to the next one.
    const int exponent = bits >> 10, mantissa = bits & 0x3FF;
    const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                      : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    const float step = std::ldexp(1.0f, (exponent == 0 ? 1 : exponent) - 25);
    ASSERT_EQ(there_and_back(*codec, value), value) << bits;
    ASSERT_EQ(there_and_back(*codec, -value), -value) << bits;
    const float up = value + step, middle = value + step / 2;
    if (bits == 0x7BFF) continue;
    ASSERT_EQ(there_and_back(*codec, middle), bits % 2 == 0 ? value : up) << bits;
    ASSERT_EQ(there_and_back(*codec, std::nextafter(middle, kInfinity)), up) << bits;
    ASSERT_EQ(there_and_back(*codec, std::nextafter(middle, 0.0f)), value) << bits;
  }
  EXPECT_EQ(there_and_back(*codec, std::nextafter(65520.0f, 0.0f)), 65504);
  EXPECT_EQ(there_and_back(*codec, 65520.0f), kInfinity);
  EXPECT_EQ(there_and_back(*codec, -1e30f), -kInfinity);
  EXPECT_TRUE(std::isnan(there_and_back(*codec, std::nanf(""))));
}

TEST(Codecs, Bfloat16RoundsToNearestEven) {
  const auto codec = make_codec(GradientFormat::bfloat16);
  EXPECT_EQ(there_and_back(*codec, 1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(there_and_back(*codec, 1.0f + 0x3p-8f), 1.0f + 0x4p-8f);
  EXPECT_EQ(there_and_back(*codec, 1.0f + 0x1.01p-8f), 1.0f + 0x2p-8f);
  EXPECT_EQ(there_and_back(*codec, std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(there_and_back(*codec, -kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(there_and_back(*codec, std::nanf("1"))));
}

TEST(Codecs, Float8HasAllNumbersOfE4m3) {
  const auto codec = make_codec(GradientFormat::float8);
  for (int code = 0; code < 0x7F; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                      : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    const float step = std::ldexp(1.0f, (exponent == 0 ? 1 : exponent) - 10);
    // 448 beside it makes the scale 1.
    const float middle = code == 0x7E ? value : value + step / 2;
    const auto result = there_and_back(*codec, {448, value, -value, middle, std::nextafter(middle, 448.0f)});
    ASSERT_EQ(result[0], 448);
    ASSERT_EQ(result[1], value) << code;
    ASSERT_EQ(result[2], -value) << code;
    if (code == 0x7E) continue;
    ASSERT_EQ(result[3], code % 2 == 0 ? value : value + step) << code;
    ASSERT_EQ(result[4], value + step) << code;
  }
}

TEST(Codecs, Int8IsOffByHalfAStepOfItsBlock) {
  const auto codec = make_codec(GradientFormat::int8);
  std::vector<float> numbers;
  for (std::size_t i = 0; i < 1000; ++i)
    numbers.push_back(test::gradient(0, 0, 1, i) * (i < 256 ? 1.0f : 1000.0f));
  const auto result = there_and_back(*codec, numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ASSERT_NEAR(result[i], numbers[i], (i < 256 ? 1.0f : 1000.0f) / 253) << i;
  EXPECT_EQ(there_and_back(*codec, -5.0f), -5.0f);
}

TEST(Codecs, OneBitKeepsSignsAndTheMeanMagnitude) {
  const auto codec = make_codec(GradientFormat::one_bit);
  EXPECT_EQ(there_and_back(*codec, {1, -3, 5, -7}), (std::vector<float>{4, -4, 4, -4}));
  std::vector<float> numbers(64 + 5, 2.0f);
  numbers[64] = -10.5f;
  const auto result = there_and_back(*codec, numbers);
  EXPECT_EQ(result[63], 2);
  // The mean is 3.7; bfloat16 has eight bits.
  EXPECT_EQ(result[64], -3.703125f);
}

TEST(Codecs, ZerosAndTheSmallestNumbersStaySmall) {
  for (const auto& codec : {make_codec(GradientFormat::float16), make_codec(GradientFormat::bfloat16),
                            make_codec(GradientFormat::int8), make_codec(GradientFormat::float8),
                            make_codec(GradientFormat::one_bit)}) {
    for (const float number : {0.0f, std::numeric_limits<float>::denorm_min(), 1e-40f, -1e-38f}) {
      const float result = there_and_back(*codec, number);
      EXPECT_LE(std::abs(result), std::abs(number) * 1.01f) << codec->name() << ' ' << number;
    }
    EXPECT_TRUE(there_and_back(*codec, std::vector<float>()).empty());
  }
}

TEST(Codecs, WhatIsNotFiniteComesBackSo) {
  for (const auto& codec : {make_codec(GradientFormat::float16), make_codec(GradientFormat::bfloat16),
                            make_codec(GradientFormat::int8), make_codec(GradientFormat::float8),
                            make_codec(GradientFormat::one_bit)}) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      std::vector<float> numbers(2000, 1.0f);
      numbers[1500] = bad;
      const auto result = there_and_back(*codec, numbers);
      EXPECT_FALSE(std::isfinite(result[1500])) << codec->name();
      EXPECT_TRUE(std::isfinite(result[100])) << codec->name();
    }
  }
}

}  // namespace
}  // namespace kolo::train
