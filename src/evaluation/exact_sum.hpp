// ExactSum: a sum of floating-point numbers without any rounding.
#pragma once

#include <vector>

namespace kolo::evaluation {

/// Keeps the sum as an expansion: doubles that do not overlap, smallest first, whose exact sum it is. Source:
/// J. R. Shewchuk: Adaptive precision floating-point arithmetic and fast robust geometric predicates,
/// Discrete and Computational Geometry 18, 1997, section 2.4 (Grow-Expansion). Python's math.fsum() works in
/// the same way.
///
/// All numbers must be finite, and no partial sum may exceed the range of double; sums of float32 cannot. Not
/// thread-safe.
class ExactSum {
 public:
  void add(double number);
  /// The double nearest to the sum; in a tie, the even one.
  double value() const;

 private:
  std::vector<double> parts_;
};

}  // namespace kolo::evaluation
