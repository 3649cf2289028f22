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

inline void store(std::byte* to, float number) {
  std::memcpy(to, &number, sizeof number);
}
inline float load(const std::byte* from) {
  float number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace kolo::train
