// Wire formats: compares the int8 blocks with plain loops on every instruction set. For all formats, decoded
// data is encoded to the same bytes.
#include "kernels/wire_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/int8_block.hpp"
#include "kernels/targets.hpp"
#include "unit/kernels/arrays.hpp"

namespace kolo::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Numbers = std::vector<float>;

constexpr Wire kWires[] = {Wire::native, Wire::bfloat16, Wire::float16, Wire::int8};
constexpr std::size_t kBlockCounts[] = {0, 1, 3, 7, 8, 31, 63, 255, 256, 257, 511, 513, 1000, 4099};

Bytes encode(const WireFormat& format, const Numbers& numbers) {
  Bytes bytes(format.bytes(numbers.size()));
  format.encode(bytes.data(), numbers.data(), numbers.size());
  return bytes;
}

Numbers decode(const WireFormat& format, const Bytes& bytes, std::size_t count) {
  Numbers numbers(count);
  format.decode(numbers.data(), bytes.data(), count);
  return numbers;
}

/// Numbers whose magnitude varies between blocks over the range of float32, from subnormal to largest.
Numbers of_all_sizes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> fraction(-1, 1);
  Numbers numbers(count);
  int exponent = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kInt8Block == 0) exponent = static_cast<int>(random() % 280) - 151;
    numbers[i] = std::ldexp(fraction(random), std::min(exponent, 127));
    if (random() % 97 == 0)
      numbers[i] = std::copysign(std::ldexp(2 - 0x1p-23f, std::min(exponent, 127)), numbers[i]);
    if (random() % 31 == 0) numbers[i] = 0;
  }
  return numbers;
}

/// With infinities, NaN and random bits.
Numbers awkward(std::size_t count, std::uint64_t seed) {
  Numbers numbers(count);
  testing::fill(DType::float32, numbers.data(), count, seed);
  return numbers;
}

class WireFormats : public ::testing::Test {
 protected:
  ~WireFormats() override { use_target(""); }
};

TEST_F(WireFormats, SizesGoBothWays) {
  for (const Wire wire : kWires) {
    const WireFormat format = wire_format(wire);
    for (const std::size_t count : kBlockCounts) EXPECT_EQ(format.numbers(format.bytes(count)), count);
  }
  EXPECT_EQ(wire_format(Wire::int8).bytes(513), 513u + 3 * 4);
  EXPECT_EQ(wire_format(Wire::bfloat16).bytes(513), 1026u);
}

TEST_F(WireFormats, Int8IsThatOfPlainLoopsOnEveryTarget) {
  for (const std::string& target : supported_targets()) {
    ASSERT_TRUE(use_target(target));
    const WireFormat format = wire_format(Wire::int8);
    for (const std::size_t count : kBlockCounts) {
      for (const Numbers& numbers : {of_all_sizes(count, count + 1), awkward(count, count + 2)}) {
        testing::Array bytes(format.bytes(count), 3);
        format.encode(bytes.data(), numbers.data(), count);
        Bytes expected(format.bytes(count));
        reference::encode_int8(expected.data(), numbers.data(), count);
        EXPECT_TRUE(bytes.guards_intact());
        ASSERT_EQ(Bytes(static_cast<std::uint8_t*>(bytes.data()),
                        static_cast<std::uint8_t*>(bytes.data()) + bytes.bytes()),
                  expected)
            << target << " of " << count;
        testing::Array decoded(count * sizeof(float), 4);
        format.decode(decoded.data(), bytes.data(), count);
        Numbers back(count);
        reference::decode_int8(back.data(), expected.data(), count);
        EXPECT_TRUE(decoded.guards_intact());
        EXPECT_TRUE(testing::same(DType::float32, decoded.data(), back.data(), count)) << target;
      }
    }
  }
}

TEST_F(WireFormats, WhatWasDecodedIsEncodedToTheSameBytes) {
  for (const std::string& target : supported_targets()) {
    ASSERT_TRUE(use_target(target));
    for (const Wire wire : kWires) {
      const WireFormat format = wire_format(wire);
      for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const std::size_t count = seed % 2 == 0 ? 2048 : 1000 + seed;
        const Numbers numbers = seed % 4 == 3 ? awkward(count, seed) : of_all_sizes(count, seed);
        const Bytes bytes = encode(format, numbers);
        const Numbers once = decode(format, bytes, count);
        const Bytes again = encode(format, once);
        const Numbers twice = decode(format, again, count);
        ASSERT_EQ(std::memcmp(once.data(), twice.data(), count * sizeof(float)), 0)
            << name_of(wire) << ", " << target << ", seed " << seed;
      }
    }
  }
}

TEST_F(WireFormats, Int8KeepsEveryScaleThatItMayChoose) {
  const WireFormat format = wire_format(Wire::int8);
  std::mt19937 random(7);
  // Every exponent, with random mantissas and those at the limits of rounding up.
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t mantissa = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 0x7FFFFF : random() & 0x7FFFFF;
      const float largest = std::bit_cast<float>(exponent << 23 | mantissa);
      Numbers numbers(kInt8Block);
      for (float& number : numbers) number = largest * (static_cast<float>(random() % 2001) / 1000 - 1);
      numbers[random() % kInt8Block] = -largest;
      const Bytes bytes = encode(format, numbers);
      const Numbers once = decode(format, bytes, kInt8Block);
      ASSERT_EQ(encode(format, once), bytes) << largest;
      const float scale = int8_scale(std::bit_cast<std::uint32_t>(largest));
      for (std::size_t k = 0; k < kInt8Block; ++k) {
        ASSERT_TRUE(std::isfinite(once[k])) << largest;
        const double off = std::abs(static_cast<double>(once[k]) - numbers[k]);
        ASSERT_LE(off, 0.5001 * scale) << numbers[k] << " of at most " << largest;
      }
    }
  }
}

TEST_F(WireFormats, ABlockThatIsNotFiniteArrivesAsNaNAndSpoilsNoOther) {
  const WireFormat format = wire_format(Wire::int8);
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    Numbers numbers(3 * kInt8Block, 1.0f);
    numbers[kInt8Block + 5] = bad;
    const Numbers got = decode(format, encode(format, numbers), numbers.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / kInt8Block == 1) << i;
  }
}

TEST_F(WireFormats, HaveNamesThatAreReadBack) {
  for (const Wire wire : kWires) {
    Wire read = Wire::native;
    EXPECT_TRUE(parse_wire(name_of(wire), read));
    EXPECT_EQ(read, wire);
  }
  Wire untouched = Wire::int8;
  EXPECT_FALSE(parse_wire("float32", untouched));
  EXPECT_EQ(untouched, Wire::int8);
}

}  // namespace
}  // namespace kolo::kernels
