// The blocks of the int8 wire format: a float32 scale, then a signed byte for each number.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace kolo::kernels {

inline constexpr std::size_t kInt8Block = 256;

constexpr std::uint32_t kScaleTail =
    0x7F;  // bits of a float32 that a scale has not: it has 17 significant ones
constexpr float kLeastScale = std::numeric_limits<float>::min();
/// The largest number of 17 bits whose product with 127 is finite.
constexpr float kLargestScale = std::bit_cast<float>(
    std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max() / 127.0f) & ~kScaleTail);
static_assert(127.0 * kLargestScale <= std::numeric_limits<float>::max());

/// The scale of a block, from the bits of its largest magnitude; NaN if that is infinite or NaN.
///
/// Numbers become q = x / scale, rounded, and are decoded as q * scale. Decoded numbers have the same scale
/// and the same q again:
///   - q * scale is exact: |q| <= 127 has 7 bits, the scale 17, a float32 24; and nothing is subnormal, since
///     the scale is at least the least normal number, nor infinite, since it is at most kLargestScale.
///   - Where the scale is between these two, it is the largest magnitude / 127 rounded up, by less than one
///     part in 2^16; so the largest q is 127 (126.998 at least, before rounding). What comes back has the
///     largest magnitude 127 * scale, whose 127th part is the scale, exactly, which needs no rounding.
///     kLargestScale is rounded down, but by so little that 127 * scale still stands for the largest number.
///   - Where it is the least, what comes back is at most 127 times that: its scale is the least again.
///   - (q * scale) * (1 / scale) differs from q by parts of 2^23, which rounding to the nearest removes.
inline float int8_scale(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7F800000;
  if (largest >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const auto exact = std::bit_cast<std::uint32_t>(std::bit_cast<float>(largest) / 127.0f);
  return std::clamp(std::bit_cast<float>((exact + kScaleTail) & ~kScaleTail), kLeastScale, kLargestScale);
}

}  // namespace kolo::kernels
