// Statistics of one row: what a list of times comes down to.
#pragma once

#include <vector>

namespace kolo::bench {

/// In the unit of the times. `p95` is the smallest time that at least 95 % of the times do not exceed; `p99`
/// likewise.
struct Summary {
  double median = 0;
  double min = 0;
  double p95 = 0;
  double p99 = 0;
};

/// All zero when there are no times.
Summary summarize(std::vector<double> times);

/// The mean of the middle half of the times: a quarter of them, rounded down, is left out at each end. 0 when
/// there are none.
double midmean(std::vector<double> times);

/// 10^9 bytes a second; 0 where there is no time.
double gigabytes_per_second(double bytes, double microseconds);

}  // namespace kolo::bench
