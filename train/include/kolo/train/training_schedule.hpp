// TrainingSchedule: the learning rate (or momentum, or batch) of each step. Needs no libtorch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace kolo {

/// How long a schedule is. The warm-up is a part of it.
struct ScheduleSteps {
  std::uint64_t total = 0;    ///< steps of the whole training, the warm-up too; 1 or more
  std::uint64_t warm_up = 0;  ///< first steps, in which the value climbs; less than `total`
};

/// A value for each step, counted from 0:
///
///     const auto rate = kolo::TrainingSchedule::cosine(0.1, {.total = 1410, .warm_up = 117});
///     for (std::uint64_t step = 0; step < 1410; ++step) {
///       kolo::set_learning_rate(optimizer, rate(step));
///       ...
///
/// In the warm-up the value climbs in equal parts to where the schedule begins, which the last step of the
/// warm-up has, and the first step is one part above zero (P. Goyal et al.: "Accurate, Large Minibatch SGD:
/// Training ImageNet in 1 Hour", 2017, section 2.2). After the last step the value stays as it ends. A
/// schedule has no state: a checkpoint that holds the number of the step holds all. Ranks compute it for
/// themselves from equal arguments, to equal bits where the C library rounds cosines and powers alike.
/// Copies are cheap; const calls are thread-safe.
///
/// All of these throw InvalidArgumentError for no steps, a warm-up that leaves none, and values that are
/// negative or not finite.
class TrainingSchedule {
 public:
  /// A schedule of the caller's own: `shape` is called with steps from the warm-up's end to `total`.
  TrainingSchedule(ScheduleSteps steps, std::function<double(std::uint64_t step)> shape);

  /// `value` in each step after the warm-up.
  static TrainingSchedule constant(double value, ScheduleSteps steps);
  /// From `highest` to `lowest` along half a cosine. See I. Loshchilov, F. Hutter: "SGDR: Stochastic Gradient
  /// Descent with Warm Restarts", ICLR 2017, equation 5, here without restarts. `lowest` is reached at
  /// `total`, so the last step moves still.
  static TrainingSchedule cosine(double highest, ScheduleSteps steps, double lowest = 0);
  /// Times `factor` from each milestone on: steps in rising order, between the warm-up and `total`. A factor
  /// above 1 grows: a batch, in place of a rate that falls (docs/training/batch.md).
  static TrainingSchedule multi_step(double value, ScheduleSteps steps, std::vector<std::uint64_t> milestones,
                                     double factor);
  /// Up from `lowest` to `highest` in `half_cycle` steps and down in as many, again and again. See L. N.
  /// Smith: "Cyclical Learning Rates for Training Neural Networks", WACV 2017, section 3. Each cycle's height
  /// is the one before times `shrink`: 0.5 is his triangular2.
  static TrainingSchedule triangular(double lowest, double highest, std::uint64_t half_cycle,
                                     ScheduleSteps steps, double shrink = 1);

  /// The value of a step, from 0; from the step `total` on the last one. Throws InvalidArgumentError where a
  /// shape of the caller's own gives a number that is negative or not finite.
  double operator()(std::uint64_t step) const;
  /// How long the schedule is.
  const ScheduleSteps& steps() const noexcept { return steps_; }

 private:
  ScheduleSteps steps_;
  std::function<double(std::uint64_t)> shape_;
};

/// One long cycle: the rate climbs to its highest, and falls to almost nothing, while momentum moves the
/// other way. See L. N. Smith, N. Topin: "Super-Convergence: Very Fast Training of Neural Networks Using
/// Large Learning Rates", 2018. Values and defaults are those of PyTorch's OneCycleLR:
///
///     const kolo::OneCycle cycle{.highest_rate = 0.4, .steps = {.total = 470}};
///     const kolo::TrainingSchedule rate = cycle.rate(), momentum = cycle.momentum();
///     ...
///     kolo::set_learning_rate(optimizer, rate(step));
///     kolo::set_momentum(optimizer, momentum(step));
struct OneCycle {
  double highest_rate = 0;  ///< the rate at the top of the cycle; 0 or more
  /// The cycle begins after the warm-up, if there is one: it has one of its own.
  ScheduleSteps steps = {};
  double rise = 0.3;               ///< part of the cycle in which the rate climbs, between 0 and 1
  double first_divisor = 25;       ///< the cycle begins at highest_rate / first_divisor ...
  double last_divisor = 1e4;       ///< ... and ends at that / last_divisor
  double highest_momentum = 0.95;  ///< at both ends of the cycle; below 1
  double lowest_momentum = 0.85;   ///< at the top of the rate; 0 or more
  bool is_linear = false;          ///< along straight lines, as in the paper; else along half cosines

  /// The learning rate of each step. Both throw InvalidArgumentError also for divisors that are not positive,
  /// a `rise` that is out of its range, and a lowest momentum above the highest or a highest of 1 or more.
  TrainingSchedule rate() const;
  /// The momentum of each step, for set_momentum(). Has no warm-up: it is highest_momentum there.
  TrainingSchedule momentum() const;
};

/// How a rate that suits one batch is carried over to another.
enum class RateScaling {
  none,         ///< it stays
  linear,       ///< times the ratio of the batches (Goyal et al., section 2.1)
  square_root,  ///< times its root (A. Krizhevsky: "One weird trick for parallelizing convolutional neural
                ///< networks", 2014, section 5)
};

/// The learning rate of a `batch`, where `rate` suits `base_batch`; both count the samples of all ranks.
/// Throws InvalidArgumentError for a rate that is negative or not finite, and batches that are not positive.
double scaled_rate(double rate, std::int64_t batch, std::int64_t base_batch, RateScaling scaling);

}  // namespace kolo
