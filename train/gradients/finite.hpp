// Whether numbers are free of infinities and NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace kolo::train {

inline bool are_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t unbounded = 0;
  for (const float value : values)
    unbounded |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  return unbounded == 0;
}

}  // namespace kolo::train
