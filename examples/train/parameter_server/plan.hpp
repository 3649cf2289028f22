// What the options make of a run: steps of each worker, and the learning rate by pushes.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/train/training_schedule.hpp"
#include "parameter_server/options.hpp"

namespace parameter_server {

struct Plan {
  std::int64_t share;  ///< images of a worker's step
  std::int64_t steps;  ///< of each worker
  kolo::TrainingSchedule rate;
};

/// Training images of the run.
inline constexpr std::int64_t kTrainingImages = 60'000;

/// Throws std::invalid_argument for a batch that the workers do not divide, or one larger than the data.
/// With pushes of weights the rate is by a worker's steps, else by the pushes of all workers.
Plan make_plan(const Options& options, int workers);

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Options& options,
                                                        const std::vector<at::Tensor>& parameters);

}  // namespace parameter_server
