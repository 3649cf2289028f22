// Numbers as their bits, and bytes at any address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kolo::train {

inline std::uint32_t bits_of(float number) {
  return std::bit_cast<std::uint32_t>(number);
}
inline float number_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float magnitude_of(float number) {
  return number_of(bits_of(number) & 0x7FFFFFFFu);
}

/// The upper half of its bits, rounded to nearest even.
inline std::uint16_t to_bfloat16(float number) {
  const std::uint32_t bits = bits_of(number);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;  // rounding could make an infinity of a NaN
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}
inline float from_bfloat16(std::uint16_t half) {
  return number_of(static_cast<std::uint32_t>(half) << 16);
}

template <typename T>
void store(std::byte* to, T number) {
  std::memcpy(to, &number, sizeof number);
}
template <typename T>
T load(const std::byte* from) {
  T number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace kolo::train
