// DelayedReplay: replays a trace with averages that arrive one step late.
#pragma once

#include <memory>
#include <vector>

#include "kolo/train/delayed_averages.hpp"
#include "train/replayed_model.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

class DelayedReplay {
 public:
  /// Collective.
  DelayedReplay(const Trace& trace, const Communicator& communicator);

  /// Collective: so many steps one after another, each from the end of one to the end of the next; the first
  /// ones do not count. Throws std::runtime_error where an average is wrong.
  StepTimes run(const Trace& trace, int steps, int left_out) { return run(trace, steps, left_out, true); }
  /// The same without averages.
  StepTimes compute(const Trace& trace, int steps, int left_out) {
    return run(trace, steps, left_out, false);
  }
  /// Collective: what the all_reduce of all gradients takes with nothing computed, each of so many times.
  std::vector<double> communicate(int times);

 private:
  StepTimes run(const Trace& trace, int steps, int left_out, bool averages);
  void verify() const;

  Communicator communicator_;
  std::shared_ptr<ReplayedModel> model_;
  DelayedAverages averages_;
};

}  // namespace kolo::bench
