// Checks averages.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace kolo::bench {

/// Throws std::runtime_error if the first or the last of `count` values, one or more, is not the expected
/// average.
inline void require_average(const void* data, std::size_t count, float expected) {
  const auto* values = static_cast<const float*>(data);
  for (const float value : {values[0], values[count - 1]}) {
    if (std::abs(value - expected) <= 1e-5f * expected) continue;
    throw std::runtime_error("an average is " + std::to_string(value) + ", not " + std::to_string(expected));
  }
}

}  // namespace kolo::bench
