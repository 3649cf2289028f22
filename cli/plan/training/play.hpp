// Times of a training step's communication under computation, played as kolo's wrappers do it.
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
using Price = std::function<double(schedule::Collective collective, double bytes)>;

/// Seconds of a backward with DistributedDataParallel, until all gradients are averaged. Buckets have the
/// default sizes of DistributedDataParallelOptions, and are averaged one after another (S. Li et al.:
/// "PyTorch Distributed", VLDB 2020, section 3.2.3).
double play_averaged_backward(const std::vector<ReplicaLayer>& layers, const Price& price);

/// Seconds of a step with ShardedDataParallel, each layer a unit: parameters are gathered under forward
/// (divided ones again under backward), and each layer's gradients are averaged under the backward of the
/// layers before (Y. Zhao et al.: "PyTorch FSDP", VLDB 2023, section 3.3). Operations on the links follow one
/// another.
double play_sharded_step(const std::vector<ReplicaLayer>& layers, Divided divided, const Price& price);

/// Of one micro-batch. Seconds.
struct StageTime {
  double forward = 0;
  double backward = 0;
  double to_next = 0;      ///< its output's way to the next stage
  double to_previous = 0;  ///< its input's gradient's way to the stage before
};

/// When the stages' last forward and backward end, from the begin of the first stage's first forward.
struct PipelineEnd {
  std::vector<double> last_backward;  ///< of each stage
};

/// Stage i of p begins with min(p - 1 - i, m) forwards, then alternates a forward and a backward, then does
/// the remaining backwards (D. Narayanan et al.: "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", SC 2021, section 2.2.1). Messages travel under computing, one after the other
/// in each direction.
PipelineEnd play_pipeline(const std::vector<StageTime>& stages, int micro_batches);

}  // namespace kolo::plan
