// The time of a pipeline's step: one forward, one backward.
#pragma once

#include <vector>

namespace kolo::plan {

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

/// Stage i of p begins with min(p - 1 - i, m) forwards, then does a forward and a backward in turns, then the
/// backwards that are left (D. Narayanan et al.: "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", SC 2021, section 2.2.1). Messages travel while stages compute, one after the
/// other in each direction. Where all stages are alike and messages take no time the last backward of the
/// first stage ends after (m + p - 1) (forward + backward).
PipelineEnd play_pipeline(const std::vector<StageTime>& stages, int micro_batches);

}  // namespace kolo::plan
