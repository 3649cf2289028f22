// ExponentialMovingAverage: its formula, on models and on shards of them, and what it refuses.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

TEST(MovingAverage, IsThatOfAllStepsAndLeavesTheParametersAsTheyWere) {
  Chain model(1);
  const auto parameters = model->parameters();
  torch::optim::SGD optimizer(parameters, 0.5);
  ExponentialMovingAverage average(parameters, 0.75);
  at::Tensor expected = parameters[0].detach().clone();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    squares(model->forward(numbers(4, 8, i)), numbers(4, 4, 9)).backward();
    optimizer.step();
    average.update();
    expected = 0.75 * expected + 0.25 * parameters[0].detach();
  }
  const at::Tensor last = parameters[0].detach().clone();
  {
    const auto applied = average.applied();
    EXPECT_TRUE(at::allclose(parameters[0], expected));
    EXPECT_FALSE(at::equal(parameters[0], last));
    EXPECT_THROW(average.update(), InvalidArgumentError);
    EXPECT_THROW(average.applied(), InvalidArgumentError);
  }
  EXPECT_TRUE(at::equal(parameters[0], last));
  average.update();
}

TEST(MovingAverage, OfShardsIsThatOfTheModel) {
  for (const Shard shard : {Shard::optimizer_state, Shard::parameters}) {
    run_all(2, [&](Communicator& communicator) {
      Chain plain(1);
      ShardedDataParallel sharded(Chain(1), communicator, {.shard = shard});
      torch::optim::SGD of_plain(plain->parameters(), 0.5), of_shards(sharded.parameters(), 0.5);
      ExponentialMovingAverage average(plain->parameters(), 0.5), of_parts(sharded.parameters(), 0.5);
      const at::Tensor x = numbers(4, 8, 3), y = numbers(4, 4, 9);
      for (int i = 0; i < 2; ++i) {
        of_plain.zero_grad();
        of_shards.zero_grad();
        squares(plain->forward(x), y).backward();
        squares(sharded(x), y).backward();
        of_plain.step();
        of_shards.step();
        average.update();
        of_parts.update();
      }
      const c10::NoGradGuard no_grad;
      const at::Tensor last = sharded(x).clone();
      {
        const auto applied = average.applied();
        const auto parts_applied = of_parts.applied();
        EXPECT_TRUE(at::allclose(sharded(x), plain->forward(x), 1e-5, 1e-6));
        EXPECT_FALSE(at::allclose(sharded(x), last, 1e-5, 1e-6));
      }
      EXPECT_TRUE(at::equal(sharded(x), last));
    });
  }
}

TEST(MovingAverage, Of16BitsMovesByLessThanTheirRounding) {
  at::Tensor parameter = at::zeros({3}, at::kBFloat16);
  ExponentialMovingAverage average({parameter}, 0.999);
  parameter.fill_(1);
  for (int i = 0; i < 1000; ++i) average.update();
  const auto applied = average.applied();
  EXPECT_NEAR(parameter[0].item<float>(), 1 - std::pow(0.999, 1000), 0.01);
}

TEST(MovingAverage, OfShardsIsInACheckpointForAnyWrapper) {
  const TemporaryFolder folder;
  std::vector<at::Tensor> expected;
  for (const int ranks : {1, 2, 3}) {
    run_all(ranks, [&](Communicator& communicator) {
      ShardedDataParallel model(Chain(ranks), communicator);
      ExponentialMovingAverage average(model.parameters(), 0.5);
      const PlacedModel placed = average.placed(model.placed());
      Checkpoint checkpoint;
      checkpoint.add("average", placed);
      if (ranks == 1) {
        checkpoint.save(folder / "run", 1, communicator);
        checkpoint.wait();
        for (const auto& [name, values] : gather_whole_parameters(placed)) expected.push_back(values);
        return;
      }
      checkpoint.load(folder / "run", communicator);
      const auto whole = gather_whole_parameters(placed);
      std::size_t i = 0;
      for (const auto& [name, values] : whole) EXPECT_TRUE(at::equal(values, expected.at(i++))) << name;
      const auto applied = average.applied();
      const auto of_model = gather_whole_parameters(model.placed());
      for (const auto& [name, values] : whole) EXPECT_TRUE(at::equal(values, of_model.at(name))) << name;
    });
  }
  EXPECT_FALSE(expected.empty());
}

TEST(MovingAverage, OfAnotherModelIsNotPlaced) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    const ShardedDataParallel model(Chain(1), communicator);
    Chain other(1);
    ExponentialMovingAverage(communicator.rank() == 1 ? other->parameters() : model.parameters(), 0.5)
        .placed(model.placed());
  });
  EXPECT_NE(said.find("rank 1: a tensor of shape [16, 8] is averaged and not of the model"),
            std::string::npos)
      << said;
}

TEST(MovingAverage, RefusesADecayOutOfItsRange) {
  EXPECT_THROW(ExponentialMovingAverage({}, 1), InvalidArgumentError);
  EXPECT_THROW(ExponentialMovingAverage({}, -0.1), InvalidArgumentError);
  EXPECT_THROW(ExponentialMovingAverage({}, std::nan("")), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::optim
