// The time of a step of replicas: communication under forward and backward, as kolo's wrappers do it.
#pragma once

#include <functional>
#include <vector>

#include "plan/training/way.hpp"

namespace kolo::plan {

/// A layer as one rank computes it. Seconds, and bytes of its parameters (and as many of its gradients).
struct ReplicaLayer {
  double forward = 0;
  double backward = 0;
  double bytes = 0;
};

/// Seconds that a collective of so many bytes takes among the replicas.
using Price = std::function<double(Collective collective, double bytes)>;

/// A backward with DistributedDataParallel: seconds from its begin until all gradients are averaged. Layers
/// run from the last to the first. A bucket is closed when it holds so many bytes as
/// DistributedDataParallelOptions says by default, and is averaged after those before it (S. Li et al.:
/// "PyTorch Distributed", VLDB 2020, section 3.2.3).
double play_averaged_backward(const std::vector<ReplicaLayer>& layers, const Price& price);

/// Forward and backward with ShardedDataParallel, each layer a unit, as one of many steps: parameters are
/// gathered under forward (and, if they are divided, again under backward) and each layer's gradients are
/// averaged under the backward of the layers before, one layer's at a time (Y. Zhao et al.: "PyTorch FSDP",
/// VLDB 2023, section 3.3). Operations take turns on the links.
double play_sharded_step(const std::vector<ReplicaLayer>& layers, Divided divided, const Price& price);

}  // namespace kolo::plan
