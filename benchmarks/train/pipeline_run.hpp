// Steps of a pipeline whose stages sleep or compute, and the share of them in which ranks idle.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/partition.hpp"
#include "kolo/train/pipeline_parallel.hpp"

namespace kolo::bench {

struct PipelineRunOptions {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int micro_batches = 4;
  int chunks = 1;
  bool recompute = false;
  std::vector<std::int64_t> borders = {};
  int steps = 5;
};

struct PipelineRunResult {
  int ranks = 0;
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  double computing = 0;            ///< seconds of a step, the mean over ranks
  /// 1 - computing / step: the mean over ranks of the share of a step in which a rank idles.
  double bubble = 0;
  /// The same if all stages took the same time, and everything else none.
  double formula = 0;
  std::vector<int> most_held;        ///< by rank
  std::vector<double> peak_bytes;    ///< by rank: resident memory, at most, above what there was before
  std::optional<double> alone_step;  ///< seconds, of one rank with all layers
};

/// Collective. Stages sleep as long as the costs say for a batch.
PipelineRunResult run_sleeping(std::span<const LayerCost> costs, const PipelineRunOptions& options,
                               Communicator& communicator);

/// Collective. Stages compute with one thread each; with `compares`, rank 0 then runs all layers alone, with
/// whole batches.
PipelineRunResult run_computing(const std::string& workload, std::int64_t batch,
                                const PipelineRunOptions& options, bool compares, Communicator& communicator);

}  // namespace kolo::bench
