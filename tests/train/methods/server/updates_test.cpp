// What servers make of pushes: the same parameters as one process makes of the same gradients.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

#include "train/methods/server/job.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::server {
namespace {

constexpr int kSteps = 5;

/// What one process makes of the workers' averages.
void train_alone(ChainImpl& model, const OptimizerFactory& factory, int workers) {
  const auto optimizer = factory(model.parameters());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<at::Tensor> sums;
    for (int worker = 0; worker < workers; ++worker) {
      compute(model, worker, step);
      for (std::size_t i = 0; i < model.parameters().size(); ++i) {
        const at::Tensor gradient = model.parameters()[i].grad() / workers;
        if (worker == 0) {
          sums.push_back(gradient);
        } else {
          sums[i] += gradient;
        }
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) model.parameters()[i].mutable_grad() = sums[i];
    optimizer->step();
  }
}

TEST(ServerUpdates, SynchronousIsTheAverageOfAllWorkers) {
  const OptimizerFactory adam = [](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
  };
  for (const OptimizerFactory& factory : {sgd(0.1, 0.9), adam}) {
    for (const int servers : {1, 3}) {
      ChainImpl alone(1);
      train_alone(alone, factory, 3);
      Job job{.options = {.servers = servers}, .settings = {.make_optimizer = factory}, .workers = 3};
      require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
        client.pull();
        for (int step = 0; step < kSteps; ++step) {
          compute(model, client.worker(), step);
          EXPECT_EQ(client.step().staleness, 0U);
        }
        EXPECT_LT(difference(model, alone), 1e-5) << servers << " servers";
      }));
    }
  }
}

TEST(ServerUpdates, OneWorkerMakesWhatOneProcessDoesByEachRule) {
  ChainImpl alone(1);
  train_alone(alone, sgd(0.1, 0.9), 1);
  for (const ServerRule rule :
       {ServerRule::synchronous, ServerRule::unbounded, ServerRule::clocks, ServerRule::versions}) {
    Job job{.options = {.rule = rule}, .settings = {.make_optimizer = sgd(0.1, 0.9)}, .workers = 1};
    require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
      for (int step = 0; step < kSteps; ++step) {
        client.pull();
        compute(model, 0, step);
        const PushReport report = client.push();
        EXPECT_EQ(report.staleness + static_cast<std::uint64_t>(report.dropped), 0U);
      }
      client.finish();
      EXPECT_LT(difference(model, alone), 1e-6);
    }));
  }
}

TEST(ServerUpdates, UnboundedPushesAllCountAndTheirAgesAreReported) {
  constexpr int kWorkers = 3;
  Job job{.options = {.servers = 2, .rule = ServerRule::unbounded}, .workers = kWorkers};
  std::mutex mutex;
  std::array<std::uint64_t, 2> staleness{};
  std::vector<ChainImpl> ends;
  require_none(job.run(
      [&](ParameterServerClient& client, ChainImpl& model) {
        client.pull();
        for (int step = 0; step < kSteps; ++step) {
          compute(model, client.worker(), step);
          const PushReport report = client.step();
          EXPECT_LE(report.staleness, kSteps * (kWorkers - 1U));
        }
        client.finish();
        const std::lock_guard lock(mutex);
        ends.push_back(model);
      },
      [&](int server, const ParameterServerStatistics& statistics) {
        EXPECT_EQ(statistics.updates, kSteps * kWorkers);
        std::uint64_t pushes = 0;
        for (std::size_t age = 0; age < statistics.staleness.size(); ++age) {
          pushes += statistics.staleness[age];
          staleness[static_cast<std::size_t>(server)] += age * statistics.staleness[age];
        }
        EXPECT_EQ(pushes, kSteps * kWorkers);
        EXPECT_TRUE(statistics.lost.empty());
      }));
  ASSERT_EQ(ends.size(), kWorkers);
  // finish() waits for the last push of all.
  for (ChainImpl& end : ends) EXPECT_EQ(difference(end, ends[0]), 0);
}

TEST(ServerUpdates, NoWorkerIsFurtherAheadThanTheBound) {
  for (const std::int64_t bound : {0, 2}) {
    Job job{.options = {.servers = 2, .rule = ServerRule::clocks, .staleness = bound}, .workers = 2};
    std::array<std::atomic<std::int64_t>, 2> clocks{};
    std::atomic<std::int64_t> furthest = 0;
    require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
      client.pull();
      auto& own = clocks[static_cast<std::size_t>(client.worker())];
      const auto& other = clocks[static_cast<std::size_t>(1 - client.worker())];
      for (int step = 0; step < 12; ++step) {
        // The slow one takes its next step when the other one can go no further.
        while (client.worker() == 1 && other < std::min<std::int64_t>(12, step + 1 + bound))
          std::this_thread::yield();
        compute(model, client.worker(), step);
        ++own;
        client.step();
        EXPECT_LE(own.load(), other.load() + bound);
        if (client.worker() == 0) furthest = std::max<std::int64_t>(furthest, own - other);
      }
      client.finish();
    }));
    EXPECT_EQ(furthest.load(), bound) << "the fast one uses what it may";
  }
}

TEST(ServerUpdates, TheLearningRateMayFollowTheUpdates) {
  ChainImpl alone(1);
  torch::optim::SGD optimizer(alone.parameters(), 1);
  for (int step = 0; step < kSteps; ++step) {
    compute(alone, 0, step);
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.1 / (1 + step));
    optimizer.step();
  }
  Job job{.workers = 1};
  job.settings.before_update = [](torch::optim::Optimizer& moved, const ServerProgress& progress) {
    auto& group = static_cast<torch::optim::SGDOptions&>(moved.param_groups()[0].options());
    EXPECT_EQ(progress.updates, progress.pushes);
    group.lr(0.1 / (1 + static_cast<double>(progress.updates)));
  };
  require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
    client.pull();
    for (int step = 0; step < kSteps; ++step) {
      compute(model, 0, step);
      client.step();
    }
    EXPECT_LT(difference(model, alone), 1e-6);
  }));
}

TEST(ServerUpdates, WeightsAreAveraged) {
  // Two workers move away from one point, by 1 and by 3.
  const auto move = [](ParameterServerClient& client, ChainImpl& model) {
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : model.parameters()) parameter.add_(client.worker() == 0 ? 1.0 : 3.0);
  };
  ChainImpl middle(1);
  {
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : middle.parameters()) parameter.add_(2.0);
  }
  Job job{.options = {.servers = 2, .push = PushKind::weights}, .settings = {}};
  require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
    client.pull();
    move(client, model);
    client.step();
    EXPECT_LT(difference(model, middle), 1e-6);
  }));
  // Each for itself: the first to push moves the average by half of its way.
  job.options.rule = ServerRule::unbounded;
  job.store = make_memory_store();  // a store is of one job
  std::atomic<int> finished{0};
  require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
    move(client, model);
    client.step();
    client.finish();
    ChainImpl begin(1);
    const double moved = (model.parameters()[0] - begin.parameters()[0]).mean().item<double>();
    // 1 first: 0.5, then (0.5 + 3) / 2; 3 first: 1.5, then (1.5 + 1) / 2. The last to push may be alone by
    // then.
    const std::array ends = {1.75, 3.0, 1.25, 1.0};
    EXPECT_TRUE(std::ranges::any_of(ends, [&](double end) { return std::abs(end - moved) < 1e-4; })) << moved;
    ++finished;
  }));
  EXPECT_EQ(finished, 2);
}

}  // namespace
}  // namespace kolo::test::server
