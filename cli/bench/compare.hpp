// Comparison of two that were measured side by side, round by round.
#pragma once

#include <vector>

namespace kolo::bench {

/// How many times as long as another something took: the median over the rounds, and the bounds between which
/// the median of endless rounds lies with 95 % (by the signs of the differences, whatever their distribution;
/// with fewer than 6 rounds, which cannot tell so much, the least and the largest).
struct Ratio {
  double median = 1;
  double low = 1;
  double high = 1;
};

/// times[r] and others[r] are of round r, so that what slows down a whole round hits both. At least one
/// round, as many of both, all above 0.
Ratio compare(const std::vector<double>& times, const std::vector<double>& others);

}  // namespace kolo::bench
