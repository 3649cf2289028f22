// Schedules: each formula, warm-up in front of it, what is refused, and how optimizers take the values.
#include "kolo/train/training_schedule.hpp"

#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

TEST(TrainingSchedule, WarmUpClimbsToWhereAnyScheduleBegins) {
  const ScheduleSteps steps{.total = 100, .warm_up = 10};
  const OneCycle cycle{.highest_rate = 0.5, .steps = steps};
  for (const auto& [schedule, begin] :
       {std::pair(TrainingSchedule::constant(0.4, steps), 0.4),
        std::pair(TrainingSchedule::cosine(0.2, steps), 0.2),
        std::pair(TrainingSchedule::multi_step(0.3, steps, {50}, 0.1), 0.3),
        std::pair(TrainingSchedule::triangular(0.1, 0.3, 20, steps), 0.1), std::pair(cycle.rate(), 0.02),
        std::pair(TrainingSchedule(steps, [](std::uint64_t step) { return 1.0 / static_cast<double>(step); }),
                  0.1)}) {
    for (std::uint64_t step = 0; step < 10; ++step)
      EXPECT_DOUBLE_EQ(schedule(step), begin * static_cast<double>(step + 1) / 10);
    EXPECT_DOUBLE_EQ(schedule(10), begin);
  }
}

TEST(TrainingSchedule, FollowsTheFormulas) {
  const auto cosine = TrainingSchedule::cosine(0.4, {.total = 110, .warm_up = 10}, 0.1);
  EXPECT_DOUBLE_EQ(cosine(60), 0.25);
  EXPECT_DOUBLE_EQ(cosine(35), 0.1 + 0.3 * (1 + std::cos(std::numbers::pi / 4)) / 2);
  EXPECT_GT(cosine(109), 0.1) << "the last step moves";
  EXPECT_DOUBLE_EQ(cosine(110), 0.1);
  EXPECT_DOUBLE_EQ(cosine(100'000), 0.1) << "after the end the value stays";

  const auto steps = TrainingSchedule::multi_step(2, {.total = 100}, {10, 50}, 0.1);
  EXPECT_EQ(std::tuple(steps(0), steps(9), steps(10), steps(49)), std::tuple(2, 2, 0.2, 0.2));
  EXPECT_DOUBLE_EQ(steps(50), 0.02);
  EXPECT_EQ(TrainingSchedule::multi_step(256, {.total = 6}, {1, 3}, 3)(5), 2304) << "a batch that grows";

  const auto triangular = TrainingSchedule::triangular(1, 5, 4, {.total = 100}, 0.5);
  for (const auto& [step, value] :
       {std::pair(0, 1.0), {1, 2.0}, {4, 5.0}, {5, 4.0}, {8, 1.0}, {12, 3.0}, {14, 2.0}, {20, 2.0}})
    EXPECT_DOUBLE_EQ(triangular(static_cast<std::uint64_t>(step)), value) << "step " << step;
}

TEST(TrainingSchedule, OneCycleIsPyTorchs) {
  // By the formula of its OneCycleLR, total_steps 20 and max_lr 0.4: the rate climbs from step 0 to 5.
  const OneCycle cycle{.highest_rate = 0.4, .steps = {.total = 20}};
  const TrainingSchedule rate = cycle.rate(), momentum = cycle.momentum();
  EXPECT_DOUBLE_EQ(rate(0), 0.4 / 25);
  EXPECT_DOUBLE_EQ(momentum(0), 0.95);
  EXPECT_DOUBLE_EQ(rate(2), 0.4 - 0.384 / 2 * (1 + std::cos(std::numbers::pi * 0.4)));
  EXPECT_DOUBLE_EQ(rate(5), 0.4);
  EXPECT_DOUBLE_EQ(momentum(5), 0.85);
  EXPECT_NEAR(rate(12), 0.2000008, 1e-7);
  EXPECT_NEAR(momentum(12), 0.9, 1e-12);
  EXPECT_DOUBLE_EQ(rate(19), 0.4 / 25 / 1e4);
  EXPECT_DOUBLE_EQ(momentum(19), 0.95);
  EXPECT_DOUBLE_EQ(rate(500), rate(19));

  const OneCycle linear{.highest_rate = 1,
                        .steps = {.total = 31, .warm_up = 10},
                        .rise = 11.0 / 21,
                        .first_divisor = 10,
                        .last_divisor = 10,
                        .is_linear = true};
  EXPECT_NEAR(linear.rate()(15), 0.55, 1e-12);
  EXPECT_NEAR(linear.rate()(20), 1, 1e-12);
  EXPECT_NEAR(linear.rate()(25), 0.505, 1e-12);
  EXPECT_DOUBLE_EQ(linear.momentum()(0), 0.95) << "momentum does not warm up";
}

TEST(TrainingSchedule, RefusesWhatMakesNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ScheduleSteps ten{.total = 10};
  EXPECT_THROW(TrainingSchedule::constant(0.1, {}), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule::cosine(-0.1, ten), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule::cosine(0.1, ten, nan), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule::triangular(0, 1, 0, ten), InvalidArgumentError);
  for (const std::vector<std::uint64_t>& milestones :
       std::vector<std::vector<std::uint64_t>>{{0}, {10}, {5, 5}, {6, 3}})
    EXPECT_THROW(TrainingSchedule::multi_step(0.1, ten, milestones, 0.1), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule::multi_step(0.1, {.total = 10, .warm_up = 5}, {4}, 0.1),
               InvalidArgumentError);
  EXPECT_THROW((OneCycle{.highest_rate = 0.1, .steps = ten, .rise = 1}.rate()), InvalidArgumentError);
  EXPECT_THROW((OneCycle{.highest_rate = 0.1, .steps = ten, .last_divisor = 0}.rate()), InvalidArgumentError);
  EXPECT_THROW((OneCycle{.highest_rate = 0.1, .steps = ten, .highest_momentum = 1}.momentum()),
               InvalidArgumentError);
  EXPECT_THROW((OneCycle{.highest_rate = 0.1}.momentum()), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule(ten, [](std::uint64_t) { return -1.0; })(0), InvalidArgumentError);
  EXPECT_THROW(TrainingSchedule(ten, nullptr), InvalidArgumentError);
  try {
    TrainingSchedule::cosine(0.1, {.total = 10, .warm_up = 10});
    ADD_FAILURE();
  } catch (const InvalidArgumentError& error) {
    EXPECT_STREQ(error.what(), "a schedule of 10 steps is not longer than its warm-up of 10 [K708]");
  }
}

TEST(ScaledRate, FollowsTheBatch) {
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 8192, 256, RateScaling::linear), 3.2);
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 4096, 256, RateScaling::square_root), 0.4);
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 8192, 256, RateScaling::none), 0.1);
  EXPECT_THROW(scaled_rate(0.1, 0, 256, RateScaling::linear), InvalidArgumentError);
  EXPECT_THROW(scaled_rate(-0.1, 256, 256, RateScaling::none), InvalidArgumentError);
}

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> of_two_groups(const Options& options) {
  using Group = torch::optim::OptimizerParamGroup;
  const auto parameter = [] { return std::vector<at::Tensor>{at::ones(2).set_requires_grad(true)}; };
  return std::make_unique<Optimizer>(std::vector<Group>{Group(parameter()), Group(parameter())}, options);
}

TEST(LearningRate, ReachesAllGroupsOfEachOptimizer) {
  using namespace torch::optim;
  const auto sgd = of_two_groups<SGD>(SGDOptions(1).momentum(0.5));
  const auto rmsprop = of_two_groups<RMSprop>(RMSpropOptions(1).momentum(0.5));
  const auto adam = of_two_groups<Adam>(AdamOptions(1));
  const auto adamw = of_two_groups<AdamW>(AdamWOptions(1));
  const auto sparse = of_two_groups<SparseAdam>(AdamOptions(1));
  const auto adagrad = of_two_groups<Adagrad>(AdagradOptions(1));
  for (const auto& optimizer :
       {sgd.get(), rmsprop.get(), adam.get(), adamw.get(), sparse.get(), adagrad.get()}) {
    set_learning_rate(*optimizer, 0);
    set_learning_rate(*optimizer, 0.25, {1, 0.5});
    EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), 0.25);
    EXPECT_EQ(optimizer->param_groups()[1].options().get_lr(), 0.125);
    EXPECT_THROW(set_learning_rate(*optimizer, -1), InvalidArgumentError);
    EXPECT_THROW(set_learning_rate(*optimizer, 1, {1, -1}), InvalidArgumentError);
    EXPECT_THROW(set_learning_rate(*optimizer, 1, {1}), InvalidArgumentError);
    EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), 0.25) << "an error changes nothing";
    if (optimizer != adagrad.get()) set_momentum(*optimizer, 0.75);
    EXPECT_THROW(set_momentum(*optimizer, 1), InvalidArgumentError);
    EXPECT_THROW(set_momentum(*optimizer, 0), InvalidArgumentError);
  }
  for (auto& group : sgd->param_groups())
    EXPECT_EQ(static_cast<SGDOptions&>(group.options()).momentum(), 0.75);
  for (auto& group : rmsprop->param_groups())
    EXPECT_EQ(static_cast<RMSpropOptions&>(group.options()).momentum(), 0.75);
  for (auto* optimizer : {adam.get(), sparse.get()})
    for (auto& group : optimizer->param_groups())
      EXPECT_EQ(static_cast<AdamOptions&>(group.options()).betas(), std::tuple(0.75, 0.999));
  for (auto& group : adamw->param_groups())
    EXPECT_EQ(static_cast<AdamWOptions&>(group.options()).betas(), std::tuple(0.75, 0.999));
  EXPECT_THROW(set_momentum(*adagrad, 0.5), InvalidArgumentError);
  EXPECT_THROW(set_momentum(*of_two_groups<SGD>(SGDOptions(1)), 0.5), InvalidArgumentError) << "made without";
}

/// A schedule as a scheduler of libtorch.
class Scheduler : public torch::optim::LRScheduler {
 public:
  Scheduler(torch::optim::Optimizer& optimizer, TrainingSchedule rate)
      : LRScheduler(optimizer), rate_(std::move(rate)) {}

 protected:
  std::vector<double> get_lrs() override {
    return std::vector<double>(get_current_lrs().size(), rate_(step_count_));
  }

 private:
  TrainingSchedule rate_;
};

TEST(TrainingSchedule, ServesASchedulerOfLibtorchAndOptimizersOfBuckets) {
  const auto rate = TrainingSchedule::cosine(0.5, {.total = 10});
  const auto sgd = of_two_groups<torch::optim::SGD>(torch::optim::SGDOptions(0.5));
  Scheduler scheduler(*sgd, rate);
  for (int i = 0; i < 5; ++i) scheduler.step();
  const double by_scheduler = sgd->param_groups()[1].options().get_lr();
  EXPECT_LT(by_scheduler, 0.4);

  run_all(2, [&](Communicator& communicator) {
    auto options = small_buckets();
    options.overlap_forward = [](const auto& parameters) {
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.5));
    };
    DistributedDataParallel model(Chain(1), communicator, options);
    model.change_optimizers(
        [&](torch::optim::Optimizer& of_bucket) { set_learning_rate(of_bucket, rate(4)); });
    for (auto* of_bucket : model.optimizers())
      EXPECT_EQ(of_bucket->param_groups()[0].options().get_lr(), rate(4));
  });
}

}  // namespace
}  // namespace kolo::test::optim
