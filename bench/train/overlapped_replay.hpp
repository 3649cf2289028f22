// OverlappedReplay: replays a trace with averages that go on in the next forward.
#pragma once

#include <memory>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "train/replayed_model.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// Seconds of this rank, a value for each step.
struct OverlappedTimes {
  std::vector<double> step;  ///< from the end of a backward to the end of the next one
  std::vector<double> exposed;
  std::vector<double> processor;
};

class OverlappedReplay {
 public:
  /// Collective.
  OverlappedReplay(const Trace& trace, Communicator communicator, DistributedDataParallelOptions options);

  /// Collective: so many steps one after another; the first ones do not count. Throws std::runtime_error
  /// where an optimizer finds a wrong average.
  OverlappedTimes run(const Trace& trace, int steps, int left_out);
  /// Of all bytes, those of the bucket for which forward waits first.
  double first_share();

 private:
  class Step;

  Communicator communicator_;
  std::shared_ptr<ReplayedModel> model_;
  std::unique_ptr<DistributedDataParallel<ReplayedModel>> parallel_;
};

}  // namespace kolo::bench
