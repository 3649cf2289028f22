// OverlappedReplay: replays a trace with averages that go on in the next forward.
#pragma once

#include <memory>

#include "kolo/train/distributed_data_parallel.hpp"
#include "train/replayed_model.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

class OverlappedReplay {
 public:
  /// Collective.
  OverlappedReplay(const Trace& trace, Communicator communicator, DistributedDataParallelOptions options);

  /// Collective. Each step lasts from the end of one backward to the end of the next. Throws
  /// std::runtime_error if an average is wrong.
  StepTimes run(const Trace& trace, int steps, int left_out);
  /// Share of all bytes in the bucket for which forward waits first.
  double first_share();

 private:
  class Step;

  Communicator communicator_;
  std::shared_ptr<ReplayedModel> model_;
  std::unique_ptr<DistributedDataParallel<ReplayedModel>> parallel_;
};

}  // namespace kolo::bench
