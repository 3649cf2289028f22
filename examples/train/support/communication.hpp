// What the gradients of a training run cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "kolo/train/parallel_model.hpp"

namespace support {

inline double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Communication {
  int ranks = 1;
  std::int64_t steps = 0;                    ///< of the last group of ranks
  double seconds = 0;                        ///< that they took
  kolo::CommunicationStatistics statistics;  ///< of rank 0, over these steps
  /// Means over the ranks, of a step. The first is left out: in it the ranks also agree on the order of
  /// buckets.
  double gradient_bytes_per_step = 0;
  double sent_bytes_per_step = 0;

  /// What a ring all-reduce sends per rank and step for so many bytes.
  double ring_bytes_per_step() const { return 2.0 * (ranks - 1) / ranks * gradient_bytes_per_step; }
};

nlohmann::json to_json(const Communication& communication);

}  // namespace support
