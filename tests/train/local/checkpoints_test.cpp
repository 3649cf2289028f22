// Training that goes on from a file has the bits of training that was never interrupted.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kolo/train/checkpoint.hpp"
#include "kolo/train/local.hpp"
#include "support/temporary_folder.hpp"
#include "train/local/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::local {
namespace {

constexpr int kSteps = 11, kSavedAfter = 6, kRanks = 3;

/// `make_step` makes a step of training with the averager and optimizer.
template <typename Averager>
void expect_to_go_on(
    const std::function<std::unique_ptr<Averager>(Chain&, Communicator&)>& make,
    const std::function<void(Averager&, Chain&, torch::optim::Optimizer&, int step, int rank)>& make_step) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  std::map<int, std::vector<std::uint8_t>> expected;
  std::mutex mutex;
  for (const bool from_file : {false, true}) {
    run_all(kRanks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Chain chain(from_file ? 50 : 1);
      const auto averager = make(chain, communicator);
      torch::optim::SGD optimizer(chain->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      const auto step_to = [&](int begin, int end) {
        for (int step = begin; step < end; ++step) make_step(*averager, chain, optimizer, step, rank);
      };
      Checkpoint checkpoint;
      checkpoint.add_own("model", *chain).add_own("optimizer", optimizer).add("averager", *averager);
      if (from_file) {
        step_to(0, 1);  // all that it has is written over
        EXPECT_EQ(checkpoint.load(path, communicator), static_cast<std::uint64_t>(kSavedAfter));
      } else {
        step_to(0, kSavedAfter);
        checkpoint.save(path, kSavedAfter, communicator);
      }
      step_to(kSavedAfter, kSteps);
      const std::lock_guard lock(mutex);
      if (from_file) {
        EXPECT_EQ(bits(chain->parameters()), expected[rank]) << "rank " << rank;
      } else {
        expected[rank] = bits(chain->parameters());
      }
    });
  }
}

template <typename Averager>
void step_then_average(Averager& averager, Chain& chain, torch::optim::Optimizer& optimizer, int step,
                       int rank) {
  optimizer.zero_grad();
  squares(chain(numbers(3, 8, 100 * step + rank)), numbers(3, 4, rank)).backward();
  optimizer.step();
  averager.step();
}

TEST(LocalCheckpoints, ModelsBetweenTwoAveragesGoOn) {
  for (const bool has_outer : {false, true}) {
    expect_to_go_on<ModelAverager>(
        [has_outer](Chain& chain, Communicator& communicator) {
          ModelAveragerOptions options{.period = 4};
          if (has_outer) options.outer.emplace();
          return std::make_unique<ModelAverager>(*chain, communicator, options);
        },
        step_then_average<ModelAverager>);
  }
}

TEST(LocalCheckpoints, AveragesUnderWayAreNotLost) {
  expect_to_go_on<DelayedAverages>(
      [](Chain& chain, Communicator& communicator) {
        return std::make_unique<DelayedAverages>(*chain, communicator);
      },
      [](DelayedAverages& averages, Chain& chain, torch::optim::Optimizer& optimizer, int step, int rank) {
        optimizer.zero_grad();
        squares(chain(numbers(3, 8, 100 * step + rank)), numbers(3, 4, rank)).backward();
        if (averages.step()) optimizer.step();
      });
}

TEST(LocalCheckpoints, OfOtherOptionsAreRefusedByAllRanks) {
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  const auto with_period = [&](Communicator& communicator, std::uint64_t period, bool saves) {
    Chain chain(1);
    ModelAverager averager(*chain, communicator, {.period = period});
    Checkpoint checkpoint;
    checkpoint.add("averager", averager);
    saves ? checkpoint.save(path, 0, communicator) : static_cast<void>(checkpoint.load(path, communicator));
  };
  run_all(2, [&](Communicator& communicator) { with_period(communicator, 4, true); });
  for (const auto& error :
       run_ranks(2, [&](Communicator& communicator) { with_period(communicator, 8, false); })) {
    EXPECT_NE(message(error).find("it was saved with the options period 4"), std::string::npos)
        << message(error);
  }
}

}  // namespace
}  // namespace kolo::test::local
