// Trains a policy on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "cartpole/options.hpp"
#include "kolo/communicator.hpp"

namespace cartpole {

struct Progress {
  std::int64_t steps = 0;     ///< of all poles of all ranks
  double mean_return = 0;     ///< of the last 100 episodes, as many of each rank; 0: none is over
  std::int64_t episodes = 0;  ///< that this is the mean of
};

struct History {
  std::int64_t steps = 0, updates = 0, parameters = 0;
  double seconds = 0;             ///< of playing and learning, without the start
  double average_seconds = 0;     ///< of it, in which rank 0 averaged gradients
  std::int64_t solved_after = 0;  ///< steps; 0: not
  double solved_seconds = 0;
  std::vector<Progress> rounds;
};

/// Collective. Throws kolo::InvalidArgumentError, on all ranks, where minibatches do not divide a round's
/// samples; std::runtime_error, on all ranks, if the ranks' parameters differ at the end.
History train(const Options& options, kolo::Communicator& communicator);

}  // namespace cartpole
