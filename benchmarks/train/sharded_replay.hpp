// ShardedReplay: replays a trace under ShardedDataParallel.
#pragma once

#include <memory>

#include "kolo/train/sharded_data_parallel.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// The layers of the trace are units. A unit sleeps where the trace computed, and its parameters are used
/// there, in forward and in backward, so that they must have been gathered. The gradients of a unit are ready
/// together: when the trace's last one of them is.
class ShardedReplay {
 public:
  /// Collective.
  ShardedReplay(const Trace& trace, Communicator communicator, Shard shard);
  ~ShardedReplay();

  /// Collective: so many steps one after another; the first ones do not count. The optimizer moves a shard,
  /// so it sleeps for one rank's part of the trace's time. Throws std::runtime_error where an average is
  /// wrong.
  StepTimes run(const Trace& trace, int steps, int left_out);

 private:
  class Model;
  struct Parallel;

  Communicator communicator_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Parallel> parallel_;
};

}  // namespace kolo::bench
