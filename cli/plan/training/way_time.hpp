// The time of a step of training in a way, and the borders of its stages.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/training/group_prices.hpp"
#include "plan/training/job.hpp"

namespace kolo::plan {

/// Seconds.
struct WayTime {
  double step = 0;
  double computing = 0;      ///< that a rank computes, the mean of all ranks
  double repeated = 0;       ///< of it: of layers that several ranks compute alike
  double waiting = 0;        ///< that ranks wait for other stages, on average, if messages take no time
  double communication = 0;  ///< by how much messages make the step longer
};

/// A layer's time is proportional to its samples, and to a rank's part of a shared layer. Replicas:
/// play_averaged_backward(), play_sharded_step(). Stages: play_pipeline(); their gradients are averaged under
/// the backward of the last micro-batch. Ranks that share a layer wait for a sum of its output in forward,
/// and of its input's gradient in backward (M. Shoeybi et al.: "Megatron-LM", 2019, section 3). The way's
/// borders are set.
WayTime time_of(const Job& job, const Way& way, GroupPrices& prices);

/// The first layer of each stage of a pipeline, by kolo::partition() of the layers' times.
std::vector<std::size_t> borders_of(const Job& job, const Way& way, GroupPrices& prices);

}  // namespace kolo::plan
