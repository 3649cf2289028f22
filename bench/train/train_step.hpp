// Steps that are computed for real, as PyTorch's twin in pytorch_ddp.py does them.
#pragma once

#include <cstdint>
#include <string>

#include "kolo/communicator.hpp"

namespace kolo::bench {

/// Seconds a step (forward, backward, optimizer), of the slowest rank.
struct TrainResult {
  int ranks = 0;
  double step = 0;  ///< median
  double step_mean = 0;
  double peak_bytes = 0;  ///< resident memory of a rank, at most
};

/// Collective. Trains the workload of that name with SGD and momentum, one thread a rank; the first steps do
/// not count. `in_bfloat16`: under kolo::Autocast. Throws std::runtime_error where the ranks' parameters
/// differ at the end.
TrainResult train(const std::string& model, std::int64_t batch, int steps, bool in_bfloat16,
                  Communicator communicator);

}  // namespace kolo::bench
