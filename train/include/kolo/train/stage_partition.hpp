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
  std::string name = {};           ///< for messages and tables; partition() does not use it
  double forward_s = 0;            ///< time of forward, in seconds
  double backward_s = 0;           ///< time of backward, in seconds
  std::uint64_t output_bytes = 0;  ///< length of the output, which a border behind this layer sends
  std::uint64_t parameters = 0;    ///< number of elements of all parameters
  /// What forward leaves in memory for backward, with the output where a later layer may still need it.
  std::uint64_t activation_bytes = 0;
};

/// What sending a tensor from rank to rank takes: latency_s + bytes / bytes_per_second.
struct TransferCost {
  double latency_s = 0;  ///< time of a message without bytes, in seconds; 0 or more
  /// Bandwidth between two stages' ranks, above 0; infinite: only latency counts.
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

/// Where partition() cuts a model.
struct Partition {
  std::vector<std::int64_t> borders;  ///< the first layer of each stage but the first, for PipelineModel
  double slowest_s = 0;               ///< time of the slowest stage for a batch, in seconds: stage_seconds()
};

/// How many seconds a stage of the layers from `begin` up to before `end` takes for a batch: forward and
/// backward of its layers, the transfer of its output, and that of the gradient of its input. Ends of the
/// pipeline send nothing. Throws InvalidArgumentError unless 0 <= begin < end <= layers.size().
double stage_seconds(std::span<const LayerCost> layers, std::int64_t begin, std::int64_t end,
                     const TransferCost& transfer = {});

/// Cuts layers into contiguous stages, none of them empty, so that the slowest one takes least. Does so by
/// dynamic programming over the number of stages and of layers (as D. Narayanan et al.: "PipeDream", SOSP
/// 2019, section 3.1, without replicated stages): stages * layers^2 / 2 steps. Counts transfers as part of a
/// stage's time; kolo hides them where it can, so that is an upper bound. For `interleaved` ask for ranks *
/// chunks stages. Pure. Throws InvalidArgumentError where there are fewer layers than stages, or no
/// stage, and for times that are negative or not finite.
Partition partition(std::span<const LayerCost> layers, int stages, const TransferCost& transfer = {});

}  // namespace kolo
