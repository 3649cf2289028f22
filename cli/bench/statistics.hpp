// Statistics of the times of one row.
#pragma once

#include <vector>

namespace kolo::bench {

/// In the unit of the times. `p95` is the smallest time that at least 95 % of the times do not exceed; `p99`:
/// 99 %.
struct Summary {
  double median = 0;
  double min = 0;
  double p95 = 0;
  double p99 = 0;
};

/// All zero if there are no times.
Summary summarize(std::vector<double> times);

/// The mean of the middle half of the times: a quarter of them, rounded down, is left out at each end. 0 if
/// there are no times.
double midmean(std::vector<double> times);

/// 10^9 bytes a second; 0 if the time is 0.
double gigabytes_per_second(double bytes, double microseconds);

}  // namespace kolo::bench
