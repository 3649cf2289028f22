// Measured times as numbers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace kolo::train {

inline double seconds_of(std::chrono::duration<double> time) {
  return time.count();
}

/// Of an even number of values the larger middle one; 0 of none.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace kolo::train
