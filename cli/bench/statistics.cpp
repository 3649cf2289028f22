#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace kolo::bench {

Summary summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  const std::size_t rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(n)));
  return {median, times.front(), times[std::max<std::size_t>(rank, 1) - 1]};
}

double gigabytes_per_second(double bytes, double microseconds) {
  return microseconds > 0 ? bytes / microseconds / 1e3 : 0;
}

}  // namespace kolo::bench
