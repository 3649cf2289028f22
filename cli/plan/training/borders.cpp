#include "plan/training/borders.hpp"

#include <algorithm>
#include <limits>

#include "plan/training/way_time.hpp"

namespace kolo::plan {

std::vector<std::size_t> borders_of(const Job& job, const Way& way, GroupPrices& prices) {
  const std::size_t layers = job.profile.layers.size();
  std::vector<double> before(layers + 1, 0);
  for (std::size_t i = 0; i < layers; ++i) before[i + 1] = before[i] + layer_seconds(job, way, i, prices);
  const auto stages = static_cast<std::size_t>(way.stages);
  std::vector<std::vector<double>> slowest(
      stages + 1, std::vector<double>(layers + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> last_begin(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  slowest[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s) {
    for (std::size_t end = s; end <= layers; ++end) {
      for (std::size_t begin = s - 1; begin < end; ++begin) {
        const double time = std::max(slowest[s - 1][begin], before[end] - before[begin]);
        if (time >= slowest[s][end]) continue;
        slowest[s][end] = time;
        last_begin[s][end] = begin;
      }
    }
  }
  std::vector<std::size_t> borders(stages);
  for (std::size_t s = stages, end = layers; s > 0; --s) end = borders[s - 1] = last_begin[s][end];
  return borders;
}

}  // namespace kolo::plan
