#include "bench/statistics.hpp"

#include <algorithm>

namespace kolo::bench {

Summary summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  const auto percentile = [&](std::size_t p) { return times[(p * n + 99) / 100 - 1]; };
  return {median, times.front(), percentile(95), percentile(99)};
}

double gigabytes_per_second(double bytes, double microseconds) {
  return microseconds > 0 ? bytes / microseconds / 1e3 : 0;
}

}  // namespace kolo::bench
