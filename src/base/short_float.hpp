// ShortFloat: how floating types of fewer than 32 bits lie in memory, for conversions of numbers and of
// vectors.
#pragma once

#include <cstdint>

namespace kolo {

/// A sign, an exponent, a mantissa. The functions give bits of float32.
struct ShortFloat {
  int bits;
  int mantissa;             ///< bits of it
  int bias;                 ///< of the exponent
  std::uint32_t too_large;  ///< bits of the least float32 that becomes `infinity`
  std::uint32_t infinity;
  std::uint32_t nan;

  constexpr int shift() const { return 23 - mantissa; }
  constexpr std::uint32_t least_normal() const { return std::uint32_t(128 - bias) << 23; }
  constexpr std::uint32_t rebias() const { return std::uint32_t(127 - bias) << 23; }
  constexpr std::uint32_t below_half() const { return (1u << (shift() - 1)) - 1; }
  /// A power of two whose last place is the distance of two subnormal numbers.
  constexpr std::uint32_t subnormal_step() const { return std::uint32_t(127 + 24 - bias - mantissa) << 23; }
};

inline constexpr ShortFloat kFloat16Format{16, 10, 15, 0x477FF000, 0x7C00, 0x7E00};  // from 65520 on
inline constexpr ShortFloat kFloat8E4M3FNFormat{8, 3, 7, 0x43E80001, 0x7F, 0x7F};    // above 464
inline constexpr ShortFloat kFloat8E5M2Format{8, 2, 15, 0x47700000, 0x7C, 0x7E};     // from 61440 on

}  // namespace kolo
