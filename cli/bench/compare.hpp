// Compares two algorithms that were measured alternately, round by round.
#pragma once

#include <vector>

namespace kolo::bench {

/// The ratio of two times: of their midmeans over the rounds, with the bounds of its 95 % interval, found by
/// resampling the rounds (bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section
/// 13.3). Uses means, because both may run at one of two speeds from round to round, and a median would be
/// one of the two.
struct Ratio {
  double ratio = 1;
  double low = 1;
  double high = 1;
};

/// times[r] and others[r] belong to round r and are resampled together. Needs at least one round, equally
/// many of both, all above 0. Equal times always give equal bounds.
Ratio compare(const std::vector<double>& times, const std::vector<double>& others);

}  // namespace kolo::bench
