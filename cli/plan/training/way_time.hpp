// The time of a step of training in a way.
#pragma once

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

/// A layer's time is in proportion to its samples, and to its part if several ranks share it. What is divided
/// among replicas is updated by one of them each.
///
/// Replicas: play_averaged_backward(), play_sharded_step(). Stages: play_pipeline(); replicas of a stage
/// average its gradients under the backward of the last micro-batch. Ranks that share a layer wait for a sum
/// of its output in forward, and for one of its input's gradient in backward (M. Shoeybi et al.:
/// "Megatron-LM", 2019, section 3). The borders of the way's stages must be set.
WayTime time_of(const Job& job, const Way& way, GroupPrices& prices);

/// Seconds that layer `index` takes a rank for a micro-batch, forward and backward, with its sums.
double layer_seconds(const Job& job, const Way& way, std::size_t index, GroupPrices& prices);

}  // namespace kolo::plan
