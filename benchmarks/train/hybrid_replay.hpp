// Replays a model that is divided among data, pipeline and tensor groups: timed waits, real messages.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/hybrid_layers.hpp"

namespace kolo::bench {

struct HybridReplayOptions {
  GridOptions grid;
  int micro_batches = 1;                   ///< more than 1 only with several stages
  double batches = 1;                      ///< of the profile in a replica's step
  std::vector<std::int64_t> borders = {};  ///< the first layer of each stage but the first
  std::optional<Shard> shard = {};         ///< of replicas alone
  double state_per_parameter = 8;          ///< bytes that stand for the optimizer's
  /// Keeps activations and looks at the memory, in place of times.
  bool measures_memory = false;
  int steps = 5;
};

struct HybridReplayResult {
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  double peak_bytes =
      0;  ///< of the rank that needs most: resident memory at most, above what there was before
};

/// Collective. Throws std::runtime_error where a gradient's average is wrong, std::invalid_argument for
/// options that do not go together.
HybridReplayResult replay_hybrid(std::span<const HybridLayer> layers, Communicator& communicator,
                                 const HybridReplayOptions& options);

}  // namespace kolo::bench
