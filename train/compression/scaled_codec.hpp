// ScaledCodec: blocks of 256 numbers, a byte each, with the scale that makes the most of a byte's range.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compression/bits.hpp"
#include "compression/codec.hpp"

namespace kolo::train {

/// `Format` has kName, kLargest (of a scaled number), to_byte(float) and from_byte(uint8_t).
template <typename Format>
class ScaledCodec final : public Codec {
 public:
  static constexpr std::size_t kBlock = 256;

  std::string_view name() const override { return Format::kName; }
  std::size_t block() const override { return kBlock; }
  std::size_t bytes_for(std::size_t count) const override {
    return count + (count + kBlock - 1) / kBlock * sizeof(float);
  }
  void encode(std::span<const float> numbers, std::byte* bytes) const override {
    for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
      const auto block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
      // As integers, magnitudes compare as numbers do, and what is not finite is larger than all else.
      std::uint32_t largest = 0;
      for (const float number : block) largest = std::max(largest, bits_of(number) & 0x7FFFFFFFu);
      const bool is_finite = largest < 0x7F800000u;
      const float scale = number_of(largest) / Format::kLargest;
      // A scale may be too small to divide by: then all numbers are as good as zero.
      const float inverse = scale >= std::numeric_limits<float>::min() && is_finite ? 1 / scale : 0;
      store(bytes, is_finite ? (inverse > 0 ? scale : 0) : std::numeric_limits<float>::quiet_NaN());
      bytes += sizeof(float);
      for (std::size_t i = 0; i < block.size(); ++i)
        bytes[i] = static_cast<std::byte>(Format::to_byte(is_finite ? block[i] * inverse : 0));
      bytes += block.size();
    }
  }
  void decode(const std::byte* bytes, std::span<float> numbers) const override {
    for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
      const auto block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
      const float scale = load<float>(bytes);
      bytes += sizeof(float);
      for (std::size_t i = 0; i < block.size(); ++i)
        block[i] = Format::from_byte(std::to_integer<std::uint8_t>(bytes[i])) * scale;
      bytes += block.size();
    }
  }
};

}  // namespace kolo::train
