#include "bench/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "bench/statistics.hpp"

namespace kolo::bench {
namespace {

/// How many of n ratios may be left out at each end, so that what remains encloses the median with 95 %: each
/// ratio is below the median with 1/2, so that their number has a binomial distribution.
std::size_t left_out(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));  // of k below the median
  double beyond = 0;
  std::size_t k = 0;
  for (; k < n / 2; ++k) {
    beyond += probability;
    if (beyond > 0.025) break;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return k == 0 ? 0 : k - 1;
}

}  // namespace

Ratio compare(const std::vector<double>& times, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t r = 0; r < times.size(); ++r) ratios.push_back(times[r] / others[r]);
  std::sort(ratios.begin(), ratios.end());
  const std::size_t out = left_out(ratios.size());
  return {summarize(ratios).median, ratios[out], ratios[ratios.size() - 1 - out]};
}

}  // namespace kolo::bench
