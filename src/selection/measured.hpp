// Measured: what the tuning table says of calls of one size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "selection/table.hpp"

namespace kolo {

/// Borrows the table's times. Sizes that differ from the call's by more than a factor of 16 say nothing.
class Measured {
 public:
  /// by_size: null where the table knows nothing of the setting and collective.
  Measured(const TuningTable::BySize* by_size, std::uint64_t bytes);

  /// At the call's size: between the next measured sizes below and above it a straight line on logarithmic
  /// scales, beyond them what the nearest one says. Nothing where the algorithm was not measured there.
  std::optional<double> seconds(const std::string& algorithm) const;
  /// How many times as long as the fastest it took, the geometric mean over all sizes that say something;
  /// infinite where it was measured at none.
  double around(const std::string& algorithm) const;

 private:
  struct Point {
    double size;  // as a logarithm
    const TuningTable::Times* times;
  };

  std::vector<Point> around_;      // by size
  std::vector<Point> next_to_it_;  // one or two of them
  double size_;
};

}  // namespace kolo
