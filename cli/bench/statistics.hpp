// Statistics of measured times.
#pragma once

#include <vector>

namespace kolo::bench {

/// In the unit of the times. `p95`: the smallest time that at least 95 % of the times do not exceed.
struct Summary {
  double median = 0;
  double mean = 0;  ///< what a program feels beside busy neighbours, where few times are very long
  double min = 0;
  double p95 = 0;
  double p99 = 0;
};

/// All zero if there are no times.
Summary summarize(std::vector<double> times);

/// The mean of the times without a quarter of them, rounded down, at each end. 0 if there are no times.
double midmean(std::vector<double> times);

/// 10^9 bytes a second; 0 if the time is 0.
double gigabytes_per_second(double bytes, double microseconds);

/// A 95 % interval, found by resampling (bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap,
/// 1993, section 13.3).
struct Interval {
  double low = 0;
  double high = 0;
};

/// Of the mean of times in the order in which they were measured. Resamples stretches of them, because one
/// slow moment of the machine affects many times. Zero if there are no times.
Interval mean_interval(const std::vector<double>& times);

/// The ratio of two times: of their midmeans over the rounds, because a median of times with two speeds would
/// be one of the two. The interval is that of resampled rounds.
struct Ratio {
  double ratio = 1;
  double low = 1;
  double high = 1;
};

/// times[r] and others[r] belong to round r and are resampled together. Needs at least one round, equally
/// many of both, all above 0. Equal times always give equal bounds.
Ratio compare(const std::vector<double>& times, const std::vector<double>& others);

}  // namespace kolo::bench
