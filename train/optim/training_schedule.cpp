#include "kolo/train/training_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// A learning rate, say.
void require_value(const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw InvalidArgumentError(std::string(name) + " of a schedule is " + std::to_string(value) +
                                 ": it must be finite and not negative",
                             {});
}

void require_steps(const ScheduleSteps& steps) {
  if (steps.total == 0) throw InvalidArgumentError("a schedule has no steps", {});
  if (steps.warm_up >= steps.total) {
    throw InvalidArgumentError("a schedule of " + std::to_string(steps.total) +
                                   " steps is not longer than its warm-up of " +
                                   std::to_string(steps.warm_up),
                               {});
  }
}

double interpolated(double from, double to, double portion, bool is_linear) {
  const double weight = is_linear ? portion : (1 - std::cos(std::numbers::pi * portion)) / 2;
  return from * (1 - weight) + to * weight;
}

/// How far `step` is on the way from `begin` to `end`.
double portion_of(double step, double begin, double end) {
  return end > begin ? std::clamp((step - begin) / (end - begin), 0.0, 1.0) : 1.0;
}

void check_cycle(const OneCycle& cycle) {
  require_value("highest_rate", cycle.highest_rate);
  require_value("lowest_momentum", cycle.lowest_momentum);
  require_steps(cycle.steps);
  if (!(cycle.rise > 0 && cycle.rise < 1))
    throw InvalidArgumentError(
        "rise of a one-cycle schedule is " + std::to_string(cycle.rise) + ": not between 0 and 1", {});
  for (const double divisor : {cycle.first_divisor, cycle.last_divisor}) {
    if (!(divisor > 0) || !std::isfinite(divisor))
      throw InvalidArgumentError(
          "a divisor of a one-cycle schedule is " + std::to_string(divisor) + ": not positive", {});
  }
  if (!(cycle.lowest_momentum <= cycle.highest_momentum && cycle.highest_momentum < 1)) {
    throw InvalidArgumentError("momentum of a one-cycle schedule from " +
                                   std::to_string(cycle.lowest_momentum) + " to " +
                                   std::to_string(cycle.highest_momentum) + ": must rise and stay below 1",
                               {});
  }
}

/// From `first` to `middle` in the rise, then to `last`, which the last step has.
std::function<double(std::uint64_t)> cycle_shape(const OneCycle& cycle, double first, double middle,
                                                 double last) {
  const auto begin = static_cast<double>(cycle.steps.warm_up);
  const double steps = static_cast<double>(cycle.steps.total) - begin;
  const double top = std::max(begin + cycle.rise * steps - 1, begin);
  const double end = begin + steps - 1;
  return [=, is_linear = cycle.is_linear](std::uint64_t step) {
    const auto at = static_cast<double>(step);
    if (at < top) return interpolated(first, middle, portion_of(at, begin, top), is_linear);
    return interpolated(middle, last, at == top ? 0 : portion_of(at, top, end), is_linear);
  };
}

}  // namespace

TrainingSchedule::TrainingSchedule(ScheduleSteps steps, std::function<double(std::uint64_t)> shape)
    : steps_(steps), shape_(std::move(shape)) {
  require_steps(steps_);
  if (!shape_) throw InvalidArgumentError("a schedule has no shape", {});
}

double TrainingSchedule::operator()(std::uint64_t step) const {
  if (step >= steps_.warm_up) {
    const double value = shape_(std::min(step, steps_.total));
    require_value("a value", value);
    return value;
  }
  return (*this)(steps_.warm_up) * static_cast<double>(step + 1) / static_cast<double>(steps_.warm_up);
}

TrainingSchedule TrainingSchedule::constant(double value, ScheduleSteps steps) {
  require_value("the value", value);
  return {steps, [value](std::uint64_t) { return value; }};
}

TrainingSchedule TrainingSchedule::cosine(double highest, ScheduleSteps steps, double lowest) {
  require_value("the highest value", highest);
  require_value("the lowest value", lowest);
  return {steps, [=](std::uint64_t step) {
            const double portion = portion_of(static_cast<double>(step), static_cast<double>(steps.warm_up),
                                              static_cast<double>(steps.total));
            return interpolated(highest, lowest, portion, false);
          }};
}

TrainingSchedule TrainingSchedule::multi_step(double value, ScheduleSteps steps,
                                              std::vector<std::uint64_t> milestones, double factor) {
  require_value("the value", value);
  require_value("the factor", factor);
  require_steps(steps);
  for (std::size_t i = 0; i < milestones.size(); ++i) {
    if (milestones[i] >= std::max<std::uint64_t>(steps.warm_up, 1) && milestones[i] < steps.total &&
        (i == 0 || milestones[i] > milestones[i - 1]))
      continue;
    throw InvalidArgumentError("milestone " + std::to_string(milestones[i]) +
                                   " of a schedule: milestones rise, come after the warm-up of " +
                                   std::to_string(steps.warm_up) + " steps and before the end, " +
                                   std::to_string(steps.total),
                               {});
  }
  return {steps, [=, milestones = std::move(milestones)](std::uint64_t step) {
            const auto passed = std::ranges::upper_bound(milestones, step) - milestones.begin();
            return value * std::pow(factor, static_cast<double>(passed));
          }};
}

TrainingSchedule TrainingSchedule::triangular(double lowest, double highest, std::uint64_t half_cycle,
                                              ScheduleSteps steps, double shrink) {
  require_value("the lowest value", lowest);
  require_value("the highest value", highest);
  require_value("shrink", shrink);
  if (half_cycle == 0) throw InvalidArgumentError("half a cycle of a triangular schedule has no steps", {});
  return {steps, [=](std::uint64_t step) {
            const std::uint64_t at = step - steps.warm_up;
            const std::uint64_t within = at % half_cycle;
            const bool is_up = at / half_cycle % 2 == 0;
            const double portion =
                static_cast<double>(is_up ? within : half_cycle - within) / static_cast<double>(half_cycle);
            const double height = std::pow(shrink, static_cast<double>(at / half_cycle / 2));
            return lowest + (highest - lowest) * height * portion;
          }};
}

TrainingSchedule OneCycle::rate() const {
  check_cycle(*this);
  const double first = highest_rate / first_divisor;
  return {steps, cycle_shape(*this, first, highest_rate, first / last_divisor)};
}

TrainingSchedule OneCycle::momentum() const {
  check_cycle(*this);
  const auto shape = cycle_shape(*this, highest_momentum, lowest_momentum, highest_momentum);
  return {{.total = steps.total},
          [shape, begin = steps.warm_up](std::uint64_t step) { return shape(std::max(step, begin)); }};
}

double scaled_rate(double rate, std::int64_t batch, std::int64_t base_batch, RateScaling scaling) {
  require_value("the rate", rate);
  if (batch <= 0 || base_batch <= 0) {
    throw InvalidArgumentError("a rate cannot be scaled from a batch of " + std::to_string(base_batch) +
                                   " to one of " + std::to_string(batch),
                               {});
  }
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  if (scaling == RateScaling::linear) return rate * ratio;
  if (scaling == RateScaling::square_root) return rate * std::sqrt(ratio);
  return rate;
}

}  // namespace kolo
