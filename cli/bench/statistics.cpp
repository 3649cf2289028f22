#include "bench/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>

namespace kolo::bench {

Summary summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  const auto percentile = [&](std::size_t p) { return times[(p * n + 99) / 100 - 1]; };
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(n);
  return {median, mean, times.front(), percentile(95), percentile(99)};
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

Ratio compare(const std::vector<double>& times, const std::vector<double>& others) {
  constexpr std::size_t kDraws = 1000;
  constexpr std::size_t kOutside = kDraws / 40;  // at each end
  std::mt19937 random;
  std::uniform_int_distribution<std::size_t> any_round(0, times.size() - 1);
  std::vector<double> ratios;
  std::vector<double> drawn(times.size());
  std::vector<double> drawn_others(times.size());
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      const std::size_t round = any_round(random);
      drawn[i] = times[round];
      drawn_others[i] = others[round];
    }
    ratios.push_back(midmean(drawn) / midmean(drawn_others));
  }
  std::sort(ratios.begin(), ratios.end());
  return {midmean(times) / midmean(others), ratios[kOutside], ratios[kDraws - 1 - kOutside]};
}

}  // namespace kolo::bench
