// Replays the layers of a profile that are divided among the ranks: timed waits, real sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::bench {

struct ProfiledLayer {
  double forward = 0, backward = 0;  ///< seconds, on one rank
  std::uint64_t sums = 0;            ///< bytes that are summed in forward, and in backward; 0: not divided
};

/// Throws std::runtime_error, with the file's name, for one that is none.
std::vector<ProfiledLayer> read_profiled_layers(const std::string& path);

struct TensorReplayOptions {
  int steps = 5;
  /// Gathers before a sum's half of a layer and scatters the sum behind it, in place of all_reduces.
  bool sequence = false;
};

struct TensorReplayResult {
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  double alone_mean = 0;           ///< of one rank with all layers, whole
  double communication = 0;        ///< a step with nothing computed
  double sent_bytes = 0;           ///< a step, of the rank that sends most
};

/// Collective. A divided layer is two halves, each of which computes for its part of the time, 1/N, and sums
/// its part of the bytes; other layers compute whole on all ranks. Steps of one rank alone take turns.
TensorReplayResult replay_tensor(const std::vector<ProfiledLayer>& layers, Communicator& communicator,
                                 const TensorReplayOptions& options);

}  // namespace kolo::bench
