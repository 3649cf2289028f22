// partition(): where to cut a model into stages of a pipeline, from the times of its layers. Needs no
// libtorch.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace kolo {

/// What a layer costs for one batch, or micro-batch.
struct LayerCost {
  std::string name = {};
  double forward_s = 0;   ///< seconds
  double backward_s = 0;  ///< seconds
  std::uint64_t output_bytes = 0;
  std::uint64_t parameters = 0;  ///< elements
  /// What forward leaves in memory for backward, with the output where a later layer may still need it.
  std::uint64_t activation_bytes = 0;
};

/// What sending a tensor from rank to rank takes: latency_s + bytes / bytes_per_second.
struct TransferCost {
  double latency_s = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

struct Partition {
  std::vector<std::int64_t> borders;  ///< for PipelineModel
  double slowest_s = 0;               ///< what the slowest stage takes for a batch
};

/// What a stage of the layers from `begin` up to before `end` takes for a batch: forward and backward of its
/// layers, the transfer of its output, and that of the gradient of its input. Ends of the pipeline send
/// nothing.
double stage_seconds(std::span<const LayerCost> layers, std::int64_t begin, std::int64_t end,
                     const TransferCost& transfer = {});

/// Cuts layers into contiguous stages, none of them empty, so that the slowest one takes least, by dynamic
/// programming over the number of stages and of layers (as D. Narayanan et al.: "PipeDream", SOSP 2019,
/// section 3.1, without replicated stages): stages * layers^2 / 2 steps. Counts transfers as part of a
/// stage's time; kolo hides them where it can, so that is an upper bound. For `interleaved` ask for ranks *
/// chunks stages. Pure. Throws InvalidArgument where there are fewer layers than stages, or no stage.
Partition partition(std::span<const LayerCost> layers, int stages, const TransferCost& transfer = {});

}  // namespace kolo
