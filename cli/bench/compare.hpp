// Comparison of two that were measured side by side, round by round.
#pragma once

#include <vector>

namespace kolo::bench {

/// How many times as long as another something took: the ratio of their midmeans over the rounds, and where
/// that ratio lies with 95 %, by drawing the rounds again (bootstrap: Efron and Tibshirani, An Introduction
/// to the Bootstrap, 1993, section 13.3). Means, because both may run at one of two speeds from round to
/// round: a median would be of either.
struct Ratio {
  double ratio = 1;
  double low = 1;
  double high = 1;
};

/// times[r] and others[r] are of round r and are drawn together. At least one round, as many of both, all
/// above 0. The same times always give the same bounds.
Ratio compare(const std::vector<double>& times, const std::vector<double>& others);

}  // namespace kolo::bench
