// SumError: how far sums of floating-point numbers are from exact ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/noise.hpp"

namespace kolo::precision {

/// Errors of many elements. A value; they add up. An element's error in units is |computed - exact| /
/// (u sum |x_i|), with the unit roundoff u, as in bounds on the error of summation (Higham 1993); 0 if all
/// contributions are 0. `relative` is of all elements together, because single results may be near 0.
struct SumError {
  double units = 0;         ///< added up over the elements
  double unit_squares = 0;  ///< added up
  double largest_units = 0;
  bench::Deviation relative;
  std::uint64_t infinite = 0;  ///< elements that overflowed; they count nowhere else

  SumError& operator+=(const SumError& other);
  double mean_units() const;
  double rms_units() const;
};

/// The error of `sums` as sums of the contributions (one array a rank). All contributions must be finite.
SumError error_of(std::span<const float> sums, const std::vector<std::vector<float>>& contributions,
                  double unit_roundoff);

}  // namespace kolo::precision
