// ShardedReplay: replays a trace under ShardedDataParallel.
#pragma once

#include <memory>

#include "kolo/train/sharded_data_parallel.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// The layers of the trace are units. Each unit sleeps for its computation, and uses its parameters in
/// forward and in backward, so they must have been gathered. All gradients of a unit are ready at the time of
/// its last one.
class ShardedReplay {
 public:
  /// Collective.
  ShardedReplay(const Trace& trace, Communicator communicator, Shard shard);
  ~ShardedReplay();

  /// Collective. The optimizer updates a shard, so it sleeps for one rank's part of the trace's time. Throws
  /// std::runtime_error if an average is wrong.
  StepTimes run(const Trace& trace, int steps, int left_out);

 private:
  class Model;
  struct Parallel;

  Communicator communicator_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Parallel> parallel_;
};

}  // namespace kolo::bench
