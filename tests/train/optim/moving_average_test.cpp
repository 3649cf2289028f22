// ExponentialMovingAverage: its formula, on models and on shards of them, and what it refuses.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
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

TEST(MovingAverage, IsSavedAndLoaded) {
  const Chain model(1), other(2);
  ExponentialMovingAverage average(model->parameters(), 0.5), loaded(other->parameters(), 0.5);
  const auto copy = [&](const ExponentialMovingAverage& from, ExponentialMovingAverage& to) {
    std::stringstream file;
    torch::serialize::OutputArchive out;
    from.save(out);
    out.save_to(file);
    torch::serialize::InputArchive in;
    in.load_from(file);
    to.load(in);
  };
  copy(average, loaded);
  const auto applied = loaded.applied();
  EXPECT_EQ(bits(other->parameters()), bits(model->parameters()));
  ExponentialMovingAverage short_one({model->first->weight}, 0.5), wide({at::ones({3}), at::ones({4})}, 0.5),
      narrow({at::ones({3}), at::ones({5})}, 0.5);
  EXPECT_THROW(copy(average, short_one), InvalidArgumentError);
  EXPECT_THROW(copy(wide, narrow), InvalidArgumentError);
}

TEST(MovingAverage, RefusesADecayOutOfItsRange) {
  EXPECT_THROW(ExponentialMovingAverage({}, 1), InvalidArgumentError);
  EXPECT_THROW(ExponentialMovingAverage({}, -0.1), InvalidArgumentError);
  EXPECT_THROW(ExponentialMovingAverage({}, std::nan("")), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::optim
