#include "fashion_mnist/plan.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "kolo/train/parallel_model.hpp"

namespace fashion_mnist {
namespace {

using kolo::TrainingSchedule;

constexpr std::int64_t kBaseBatch = 256;  ///< which --lr is for

struct Milestones {
  double factor = 1;
  std::vector<std::uint64_t> epochs;
};

/// As --milestones has them: 3@1,3.
Milestones parse_milestones(const std::string& text) {
  Milestones milestones;
  std::istringstream in(text);
  char at = 0;
  std::uint64_t epoch = 0;
  in >> milestones.factor >> at;
  bool is_good = in && at == '@' && milestones.factor > 0;
  while (is_good) {
    is_good = static_cast<bool>(in >> epoch);
    milestones.epochs.push_back(epoch);
    if (!is_good || !(in >> at)) break;
    is_good = at == ',';
  }
  if (!is_good)
    throw std::invalid_argument("--milestones " + text + " is not like 3@1,3: FACTOR@EPOCH,EPOCH...");
  return milestones;
}

std::vector<Epoch> plan_epochs(const Options& options, int ranks,
                               const std::function<std::int64_t(std::int64_t)>& steps_per_epoch) {
  const auto epochs = static_cast<std::uint64_t>(std::ceil(options.epochs));
  auto batch = TrainingSchedule::constant(static_cast<double>(options.batch), {.total = epochs});
  if (options.schedule == "growing-batch") {
    if (options.reader != "sampler")
      throw std::invalid_argument("a batch that grows needs --reader sampler: the others have one size");
    const Milestones milestones = parse_milestones(options.milestones);
    batch = TrainingSchedule::multi_step(static_cast<double>(options.batch), {.total = epochs},
                                         milestones.epochs, milestones.factor);
  }
  std::vector<Epoch> plan;
  for (std::uint64_t i = 0; i < epochs; ++i) {
    Epoch epoch{.batch = std::llround(batch(i)), .steps = 0, .whole = 0};
    if (!options.elastic.is_on) {
      kolo::samples_per_part(epoch.batch, ranks, options.accumulate);
    } else if (epoch.batch < ranks) {
      throw std::invalid_argument("a batch has fewer images than there are ranks");
    }
    epoch.whole = steps_per_epoch(epoch.batch);
    if (epoch.whole == 0) throw std::invalid_argument("there are fewer images than a batch takes");
    const double part = std::min(options.epochs - static_cast<double>(i), 1.0);
    epoch.steps = std::llround(part * static_cast<double>(epoch.whole));
    plan.push_back(epoch);
  }
  return plan;
}

TrainingSchedule plan_rate(const Options& options, double rate, kolo::ScheduleSteps steps,
                           std::uint64_t steps_per_epoch) {
  if (options.schedule == "cosine") return TrainingSchedule::cosine(rate, steps);
  if (options.schedule == "triangular")
    return TrainingSchedule::triangular(rate / 4, rate, steps_per_epoch, steps);
  if (options.schedule == "steps") {
    Milestones milestones = parse_milestones(options.milestones);
    for (std::uint64_t& milestone : milestones.epochs) milestone *= steps_per_epoch;
    return TrainingSchedule::multi_step(rate, steps, milestones.epochs, 1 / milestones.factor);
  }
  return TrainingSchedule::constant(rate, steps);
}

}  // namespace

Plan make_plan(const Options& options, int ranks,
               const std::function<std::int64_t(std::int64_t batch)>& steps_per_epoch) {
  std::vector<Epoch> epochs = plan_epochs(options, ranks, steps_per_epoch);
  kolo::ScheduleSteps steps;
  for (const Epoch& epoch : epochs) steps.total += static_cast<std::uint64_t>(epoch.steps);
  const bool is_one_cycle = options.schedule == "one-cycle";
  const double warm_up = options.warm_up_epochs.value_or(is_one_cycle ? 0 : 0.5);
  steps.warm_up = static_cast<std::uint64_t>(std::llround(warm_up * static_cast<double>(epochs[0].whole)));
  const auto scaling = options.scale_rate == "linear" ? kolo::RateScaling::linear
                       : options.scale_rate == "sqrt" ? kolo::RateScaling::square_root
                                                      : kolo::RateScaling::none;
  const double rate = kolo::scaled_rate(options.learning_rate, options.batch, kBaseBatch, scaling);
  if (!is_one_cycle) {
    auto schedule = plan_rate(options, rate, steps, static_cast<std::uint64_t>(epochs[0].whole));
    return {std::move(epochs), std::move(schedule), std::nullopt};
  }
  // Adam's first beta is 0.9, as momentum is.
  const kolo::OneCycle cycle{.highest_rate = rate,
                             .steps = steps,
                             .highest_momentum = options.momentum + 0.05,
                             .lowest_momentum = options.momentum - 0.05};
  if (options.momentum == 0)
    return {std::move(epochs), kolo::OneCycle{.highest_rate = rate, .steps = steps}.rate(), {}};
  return {std::move(epochs), cycle.rate(), cycle.momentum()};
}

}  // namespace fashion_mnist
