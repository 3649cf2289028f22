// Numbers as their bits, bytes at any address, and sums in a fixed order.
#pragma once

#include <array>
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

/// The sum of term(0) to term(count - 1), in sixteen partial sums: their order does not depend on how many a
/// processor adds at a time, and a compiler may keep them in registers of any width.
template <typename Sum, typename Term>
Sum sum_of(std::size_t count, Term term) {
  constexpr std::size_t kSums = 16;
  std::array<Sum, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += term(i + j);
  }
  for (std::size_t j = 0; i < count; ++i, ++j) sums[j] += term(i);
  for (std::size_t width = kSums / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
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
