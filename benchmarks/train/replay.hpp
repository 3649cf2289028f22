// Replays a trace on all ranks under DistributedDataParallel.
#pragma once

#include <optional>
#include <string>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

struct ReplayOptions {
  DistributedDataParallelOptions parallel;
  int steps = 20;
  /// Scales the trace so that it computes so many times as long as communication takes alone; 0: as it is.
  double compute_ratio = 0;
  /// Scales the trace so that it computes so many seconds a step; 0: as it is. Excludes compute_ratio.
  double compute_seconds = 0;
  // The other way, of which there is at most one:
  bool overlap_forward = false;     ///< averages go on in the next forward
  bool delayed_averages = false;    ///< averages arrive one step late
  bool measured_borders = false;    ///< borders of buckets from measured times
  std::optional<Shard> shard = {};  ///< a model that is divided among the ranks
};

/// Seconds. Beside the plain steps at most one other way, whose steps were interleaved with them.
struct ReplayResult : StepSummary {
  int ranks = 0;
  std::size_t buckets = 0;
  double forward = 0, backward = 0, optimizer = 0;  ///< of the trace, as it was replayed
  double first_bucket = 0;                          ///< from the begin of backward until it was complete
  double communication = 0;                         ///< of all buckets, with nothing computed
  double sent_bytes = 0;                            ///< per rank and step

  struct Overlapped : StepSummary {
    double first_layer;  ///< communication of the bucket that forward waits for first
  };
  std::optional<Overlapped> overlapped = {};

  struct Measured : StepSummary {
    std::size_t buckets;
    double first_bucket, communication;  ///< as above
    BucketPlan plan;
  };
  std::optional<Measured> measured = {};

  struct Delayed : StepSummary {
    double communication;  ///< the all_reduce of all gradients, with nothing computed
    double computation;    ///< a step without averages
  };
  std::optional<Delayed> delayed = {};

  struct Sharded : StepSummary {
    double communication;  ///< a step in which nothing is computed
    double sent_bytes;     ///< per rank and step
  };
  std::optional<Sharded> sharded = {};

  /// The least time of a step with complete overlap.
  double bound() const;
  /// Of all ranks; `tokens`: of a rank and step.
  double tokens_per_second(std::int64_t tokens) const {
    return static_cast<double>(ranks * tokens) / step_mean;
  }
  double overlapped_bound() const;
  double measured_bound() const;
  /// The longer one of computation and communication.
  double delayed_bound() const;
};

/// Collective. Throws std::runtime_error where an average is wrong.
ReplayResult replay(const Trace& trace, Communicator communicator, const ReplayOptions& options);

}  // namespace kolo::bench
