// Shards with no_sync(), gradient accumulation, loss scales, and other ranks that hold the same shards.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>

#include "kolo/error.hpp"
#include "kolo/timeline.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded {
namespace {

at::Tensor own_input(int seed) {
  return numbers(4, 7, seed).to(at::kDouble);
}
at::Tensor own_target() {
  return own_input(900);
}

/// Parameters after steps of one process, which has the batches of all.
std::vector<at::Tensor> trained_alone(const std::function<at::Tensor(TowerImpl&, int step)>& loss,
                                      int steps) {
  Tower net(1);
  torch::optim::SGD optimizer(unique_parameters(*net), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss(*net, i).backward();
    optimizer.step();
  }
  return unique_parameters(*net);
}

void expect_equal(ShardedDataParallel<TowerImpl>& model, const std::vector<at::Tensor>& expected) {
  const auto whole = model.whole();
  const auto found = unique_parameters(model.model());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT((found[i] - expected[i]).abs().max().item().toDouble(), 1e-12) << "parameter " << i;
}

TEST(ShardedLocal, AccumulationIsOneStepOfTheWholeBatch) {
  constexpr int kRanks = 2, kSteps = 4, kParts = 2;
  const auto expected = trained_alone(
      [](TowerImpl& net, int step) {
        at::Tensor sum;
        for (int rank = 0; rank < kRanks; ++rank) {
          const at::Tensor loss = squares(net.forward(own_input(10 * step + rank)), own_target()) / kRanks;
          sum = sum.defined() ? sum + loss : loss;
        }
        return sum;
      },
      kSteps);
  for (const Shard shard : kShards) {
    run_all(kRanks, [&](Communicator& communicator) {
      ShardedDataParallel model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int i = 0; i < kSteps; ++i) {
        optimizer.zero_grad();
        accumulate(model, {own_input(10 * i + communicator.rank()), own_target()}, kParts,
                   [&](const Batch& part) { return squares(model(part[0]), part[1]); });
        optimizer.step();
      }
      EXPECT_EQ(model.total().steps, static_cast<std::uint64_t>(kSteps));
      expect_equal(model, expected);
    });
  }
}

TEST(ShardedLocal, RanksWithTheSameShardsTrainOnAllBatches) {
  constexpr int kSteps = 3;
  const auto expected = trained_alone(
      [](TowerImpl& net, int step) {
        at::Tensor sum;
        for (int rank = 0; rank < 4; ++rank) {
          const at::Tensor loss = squares(net.forward(own_input(10 * step + rank)), own_target()) / 4;
          sum = sum.defined() ? sum + loss : loss;
        }
        return sum;
      },
      kSteps);
  for (const Shard shard : kShards) {
    run_all(4, [&](Communicator& communicator) {
      Communicator shards = communicator.split(communicator.rank() / 2);
      const Communicator data = communicator.split(communicator.rank() % 2);
      // Only rank 0's values count.
      ShardedDataParallel model(Tower(communicator.rank() + 1), shards, {.shard = shard, .data = data});
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int i = 0; i < kSteps; ++i) {
        optimizer.zero_grad();
        squares(model(own_input(10 * i + communicator.rank())), own_target()).backward();
        optimizer.step();
      }
      expect_equal(model, expected);
    });
  }
  const std::string odd = error_of_all(4, [](Communicator& communicator) {
    Communicator shards = communicator.split(communicator.rank() / 2);
    const Communicator data = communicator.split(communicator.rank() % 2);
    const std::int64_t width = communicator.rank() < 2 ? 7 : 5;
    const ShardedDataParallel model(Tower(1, width), shards, {.data = data});
  });
  EXPECT_NE(odd.find("[5]"), std::string::npos) << odd;
  const std::string same = error_of_all(2, [](Communicator& communicator) {
    const ShardedDataParallel model(Tower(1), communicator, {.data = communicator});
  });
  EXPECT_NE(same.find("rank 1 has shard 1 of 2 where rank 0 has shard 0 of 2"), std::string::npos) << same;
}

TEST(ShardedLocal, OverflowOnOneRankSkipsTheStepOnAll) {
  run_all(2, [](Communicator& communicator) {
    ShardedDataParallel model(Tower(1), communicator, {});
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    LossScaler scaler(model, {.initial_scale = 8});
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      at::Tensor loss = squares(model(own_input(i)), own_target());
      if (i == 1 && communicator.rank() == 1) loss = loss * 1e308;
      scaler.scale(loss).backward();
      EXPECT_EQ(scaler.step(optimizer), i != 1);
    }
    EXPECT_EQ(scaler.skipped_steps(), 1u);
    EXPECT_EQ(scaler.scale(), 4);
  });
}

TEST(ShardedLocal, ATimelineHasUnits) {
  const auto timeline = std::make_shared<Timeline>();
  const auto errors = run_ranks(
      2,
      [](Communicator& communicator) {
        ShardedDataParallel model(Tower(1), communicator, {});
        squares(model(own_input(1)), own_target()).backward();
      },
      [&](Options& options, int rank) {
        if (rank == 0) options.timeline = timeline;
      });
  EXPECT_EQ(message(errors[0]), "");
  EXPECT_NE(timeline->chrome_events(0).find("unit 'list.0'"), std::string::npos);
}

}  // namespace
}  // namespace kolo::test::sharded
