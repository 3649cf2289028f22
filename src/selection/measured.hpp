// Measured: the tuning table's times for calls of one size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "selection/table.hpp"

namespace kolo::selection {

/// Borrows the table's times. Ignores sizes that differ from the call's by more than a factor of 16.
class Measured {
 public:
  /// by_size: null if the table has no times for the setting and collective.
  Measured(const TuningTable::BySize* by_size, std::uint64_t bytes);

  /// The time at the call's size: on a straight line, on logarithmic scales, between the nearest measured
  /// sizes below and above it. Beyond them, the time of the nearest size. Nullopt if the algorithm was not
  /// measured there.
  std::optional<double> seconds(const std::string& algorithm) const;
  /// Its time relative to the fastest algorithm: the geometric mean over all sizes that count. Infinite if it
  /// was measured at none of them.
  double around(const std::string& algorithm) const;

 private:
  struct Point {
    double size;  // as a logarithm
    const TuningTable::Times* times;
  };

  std::vector<Point> around_;      // by size
  std::vector<Point> next_to_it_;  // one or two points of `around_`
  double size_;
};

}  // namespace kolo::selection
