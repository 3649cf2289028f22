#include "bench/compare.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

#include "bench/statistics.hpp"

namespace kolo::bench {

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
