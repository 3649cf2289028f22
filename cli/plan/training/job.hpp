// Job: a model that a cluster shall train.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/training/group_prices.hpp"
#include "plan/training/profile.hpp"
#include "plan/training/way.hpp"

namespace kolo::plan {

/// float32: parameters, and their gradients.
inline constexpr double kBytesPerNumber = 4;

/// A value.
struct Job {
  ModelProfile profile;
  Cluster cluster;
  std::uint64_t samples = 0;         ///< of a step, all ranks together; the same for all ways
  double state_per_parameter = 0;    ///< bytes that the optimizer keeps for each parameter
  std::optional<double> memory;      ///< bytes that a rank has
  std::optional<int> micro_batches;  ///< of each pipeline; else the fastest number

  /// Micro-batches of a way, in batches of the profile: what its layers' times and bytes are multiplied by.
  double batches(const Way& way) const {
    return static_cast<double>(samples) / way.data / way.micro_batches / static_cast<double>(profile.batch);
  }
};

}  // namespace kolo::plan
