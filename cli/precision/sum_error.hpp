// SumError: how far sums of floating-point numbers are from exact ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/noise.hpp"

namespace kolo::precision {

/// Errors of many elements. A value; they add up.
///
/// An element's error in units is |computed - exact| / (u sum |x_i|), u being the unit roundoff: what a bound
/// on the error of any summation is stated in (Higham 1993). 0 where all contributions are 0. The error
/// relative to the result has no mean where results are near 0, so `relative` takes it of all elements
/// together.
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

/// Of `sums`, which should be those of the contributions (one array a rank). All contributions must be
/// finite.
SumError error_of(std::span<const float> sums, const std::vector<std::vector<float>>& contributions,
                  double unit_roundoff);

}  // namespace kolo::precision
