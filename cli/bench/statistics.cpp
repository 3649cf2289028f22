#include "bench/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace kolo::bench {

Summary summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  const auto percentile = [&](std::size_t p) { return times[(p * n + 99) / 100 - 1]; };
  return {median, times.front(), percentile(95), percentile(99)};
}

double midmean(std::vector<double> times) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  const auto out = static_cast<std::ptrdiff_t>(times.size() / 4);
  const auto begin = times.begin() + out;
  const auto end = times.end() - out;
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

double gigabytes_per_second(double bytes, double microseconds) {
  return microseconds > 0 ? bytes / microseconds / 1e3 : 0;
}

}  // namespace kolo::bench
