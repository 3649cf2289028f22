// What the options make of the batch of each epoch and the rate of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fashion_mnist/options.hpp"
#include "kolo/train/training_schedule.hpp"

namespace fashion_mnist {

struct Epoch {
  std::int64_t batch;  ///< over all ranks
  std::int64_t steps;  ///< the last epoch may be a part of one
  std::int64_t whole;  ///< steps of a whole one
};

struct Plan {
  std::vector<Epoch> epochs;
  kolo::TrainingSchedule rate;
  std::optional<kolo::TrainingSchedule> momentum;  ///< where it changes
};

/// Throws InvalidArgumentError and std::invalid_argument for options that do not go together, a warm-up that
/// is longer than the training, or a batch that ranks and accumulation do not divide, but for an elastic
/// training.
Plan make_plan(const Options& options, int ranks,
               const std::function<std::int64_t(std::int64_t batch)>& steps_per_epoch);

}  // namespace fashion_mnist
