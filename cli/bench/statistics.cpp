#include "bench/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>

namespace kolo::bench {
namespace {

/// Of a statistic of so many numbers, at least one, which it gets by their indices.
template <typename Statistic>
Interval resample(std::size_t count, Statistic statistic) {
  constexpr std::size_t kDraws = 1000;
  constexpr std::size_t kOutside = kDraws / 40;  // at each end
  std::mt19937 random;
  std::uniform_int_distribution<std::size_t> any(0, count - 1);
  std::vector<std::size_t> drawn(count);
  std::vector<double> results(kDraws);
  for (double& result : results) {
    for (std::size_t& index : drawn) index = any(random);
    result = statistic(drawn);
  }
  std::sort(results.begin(), results.end());
  return {results[kOutside], results[kDraws - 1 - kOutside]};
}

double mean(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

std::vector<double> at(const std::vector<std::size_t>& indices, const std::vector<double>& times) {
  std::vector<double> chosen(indices.size());
  std::transform(indices.begin(), indices.end(), chosen.begin(), [&](std::size_t i) { return times[i]; });
  return chosen;
}

}  // namespace

Summary summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  const auto percentile = [&](std::size_t p) { return times[(p * n + 99) / 100 - 1]; };
  return {median, mean(times), times.front(), percentile(95), percentile(99)};
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

Interval mean_interval(const std::vector<double>& times) {
  constexpr std::size_t kStretches = 50;
  if (times.empty()) return {};
  std::vector<double> means(std::min(times.size(), kStretches));
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto border = [&](std::size_t k) {
      return times.begin() + static_cast<std::ptrdiff_t>(times.size() * k / means.size());
    };
    means[i] = mean({border(i), border(i + 1)});
  }
  return resample(means.size(), [&](const auto& drawn) { return mean(at(drawn, means)); });
}

Ratio compare(const std::vector<double>& times, const std::vector<double>& others) {
  const auto ratio_of = [](const auto& a, const auto& b) { return midmean(a) / midmean(b); };
  const Interval range = resample(
      times.size(), [&](const auto& rounds) { return ratio_of(at(rounds, times), at(rounds, others)); });
  return {ratio_of(times, others), range.low, range.high};
}

}  // namespace kolo::bench
