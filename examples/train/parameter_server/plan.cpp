#include "parameter_server/plan.hpp"

#include <torch/optim/sgd.h>

#include <algorithm>
#include <stdexcept>

namespace parameter_server {

Plan make_plan(const Options& options, int workers) {
  if (options.batch % workers != 0) {
    throw std::invalid_argument("--batch " + std::to_string(options.batch) + ", which " +
                                std::to_string(workers) + " workers do not divide");
  }
  const std::int64_t images = options.limit > 0 ? std::min(options.limit, kTrainingImages) : kTrainingImages;
  const std::int64_t share = options.batch / workers;
  const std::int64_t steps_per_epoch = images / options.batch;
  const auto steps = static_cast<std::int64_t>(options.epochs * static_cast<double>(steps_per_epoch));
  if (steps < 1) {
    throw std::invalid_argument("--batch " + std::to_string(options.batch) + " of " + std::to_string(images) +
                                " images: there is no step");
  }
  constexpr double kBatchOfRate = 256;
  const bool is_round = options.rule == "synchronous" && options.push == "gradients";
  const double rate =
      options.learning_rate * static_cast<double>(is_round ? options.batch : share) / kBatchOfRate;
  // A warm-up of half an epoch, as train_fashion_mnist has.
  const std::int64_t pushes_per_step = options.push == "weights" ? 1 : workers;
  const std::int64_t warm_up = std::min(steps_per_epoch, steps) / 2;
  const kolo::ScheduleSteps schedule{.total = static_cast<std::uint64_t>(steps * pushes_per_step),
                                     .warm_up = static_cast<std::uint64_t>(warm_up * pushes_per_step)};
  return {share, steps, kolo::TrainingSchedule::cosine(rate, schedule)};
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Options& options,
                                                        const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(options.learning_rate)
                                                             .momentum(options.momentum)
                                                             .nesterov(options.momentum > 0)
                                                             .weight_decay(options.weight_decay));
}

}  // namespace parameter_server
