// DelayedReplay: replays a trace with averages that arrive one step late.
#pragma once

#include <memory>
#include <vector>

#include "kolo/train/local.hpp"
#include "train/replayed_model.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

class DelayedReplay {
 public:
  /// Collective.
  DelayedReplay(const Trace& trace, const Communicator& communicator);

  /// Collective. Each step lasts from the end of the step before. Throws std::runtime_error if an average is
  /// wrong.
  StepTimes run(const Trace& trace, int steps, int left_out) { return run(trace, steps, left_out, true); }
  /// Collective: steps without averages.
  StepTimes compute(const Trace& trace, int steps, int left_out) {
    return run(trace, steps, left_out, false);
  }
  /// Collective: seconds of each of `times` all_reduces of all gradients, without computation.
  std::vector<double> communicate(int times);

 private:
  StepTimes run(const Trace& trace, int steps, int left_out, bool averages);
  void verify() const;

  Communicator communicator_;
  std::shared_ptr<ReplayedModel> model_;
  DelayedAverages averages_;
};

}  // namespace kolo::bench
