#include "plan/training/borders.hpp"

#include "kolo/train/stage_partition.hpp"
#include "plan/training/way_time.hpp"

namespace kolo::plan {

std::vector<std::size_t> borders_of(const Job& job, const Way& way, GroupPrices& prices) {
  std::vector<LayerCost> costs(job.profile.layers.size());
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i].forward_s = layer_seconds(job, way, i, prices);
  std::vector<std::size_t> first_layers{0};
  for (const std::int64_t border : partition(costs, way.stages).borders)
    first_layers.push_back(static_cast<std::size_t>(border));
  return first_layers;
}

}  // namespace kolo::plan
