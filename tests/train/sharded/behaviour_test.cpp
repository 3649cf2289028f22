// ShardedDataParallel besides training: evaluation, checkpointing, what is refused, failures, bytes and
// memory.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "kolo/error.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded {
namespace {

at::Tensor input(int seed) {
  return numbers(3, 7, seed).to(at::kDouble);
}

void step(ShardedDataParallel<TowerImpl>& model, torch::optim::Optimizer& optimizer, int seed) {
  optimizer.zero_grad();
  squares(model(input(seed)), input(900)).backward();
  optimizer.step();
}

TEST(ShardedBehaviour, EvaluationSeesTheLatestParameters) {
  for (const Shard shard : {Shard::optimizer_state, Shard::parameters}) {
    run_all(3, [&](Communicator& communicator) {
      ShardedDataParallel model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int i = 0; i < 3; ++i) step(model, optimizer, i);
      {
        const c10::NoGradGuard no_grad;
        const at::Tensor wrapped = model(input(5));
        at::Tensor whole;
        {
          const auto guard = model.whole();
          whole = model.model().forward(input(5));
        }
        // Without a forward() of the wrapper: the first operation on a parameter gathers, too.
        const at::Tensor direct = model.model().forward(input(5));
        EXPECT_EQ((wrapped - whole).abs().max().item().toDouble(), 0);
        EXPECT_EQ((direct - whole).abs().max().item().toDouble(), 0);
      }
      for (int i = 3; i < 5; ++i) step(model, optimizer, i);
    });
  }
}

TEST(ShardedBehaviour, PartsThatAreComputedAnewAreGatheredAgain) {
  struct CheckpointedImpl : TowerImpl {
    using TowerImpl::TowerImpl;
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor y = at::tanh(first(x)) * scale;
      return last(recompute([this](const at::Tensor& z) { return list->forward(z); }, y));
    }
  };
  run_all(2, [](Communicator& communicator) {
    ShardedDataParallel plain(std::make_shared<TowerImpl>(1), communicator, {});
    ShardedDataParallel anew(std::make_shared<CheckpointedImpl>(1), communicator, {});
    torch::optim::SGD one(plain.parameters(), 0.1), other(anew.parameters(), 0.1);
    for (int i = 0; i < 4; ++i) {
      step(plain, one, i);
      other.zero_grad();
      squares(anew(input(i)), input(900)).backward();
      other.step();
    }
    for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
      const at::Tensor difference = plain.parameters()[i].detach() - anew.parameters()[i].detach();
      EXPECT_LT(difference.abs().sum().item().toDouble(), 1e-12);
    }
  });
}

TEST(ShardedBehaviour, WhatCannotBeIsRefusedOnAllRanks) {
  const auto refused = [](const std::function<void(Communicator&)>& body) { return error_of_all(2, body); };
  const auto with_units = [&](const std::vector<std::string>& units) {
    return refused([&](Communicator& communicator) {
      const ShardedDataParallel model(Tower(1), communicator, {.units = units});
    });
  };
  EXPECT_NE(with_units({"attic"}).find("'attic', which is no submodule"), std::string::npos);
  EXPECT_NE(with_units({"list", "list.0"}).find("'list' and 'list.0', which is the same or within it"),
            std::string::npos);
  const std::string differ = refused([](Communicator& communicator) {
    const ShardedDataParallel model(
        Tower(1), communicator, {.shard = communicator.rank() == 1 ? Shard::gradients : Shard::parameters});
  });
  EXPECT_NE(differ.find("rank 1"), std::string::npos) << differ;
  const std::string twice = refused([](Communicator& communicator) {
    Tower net(1);
    const DistributedDataParallel first(net, communicator);
    const ShardedDataParallel second(net, communicator, {});
  });
  EXPECT_NE(twice.find("another object averages the gradient of 'scale'"), std::string::npos) << twice;
}

TEST(ShardedBehaviour, ABrokenOffBackwardIsAnErrorOnAllRanks) {
  for (const Shard shard : {Shard::gradients, Shard::parameters}) {
    const auto errors = run_ranks(3, [&](Communicator& communicator) {
      ShardedDataParallel model(Tower(1), communicator, {.shard = shard});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      step(model, optimizer, 0);
      const at::Tensor loss = squares(model(input(1)), input(900));
      if (communicator.rank() == 1) {
        // After gradients of a first unit are on their way.
        model.model().list->parameters()[0].register_hook(
            [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("spilled coffee"); });
      }
      loss.backward();
      for (int i = 0; i < 3; ++i) step(model, optimizer, i);
    });
    EXPECT_NE(message(errors[1]).find("spilled coffee"), std::string::npos) << message(errors[1]);
    for (const std::size_t rank : {0U, 2U})
      EXPECT_NE(message(errors[rank]).find("rank 1 aborted"), std::string::npos) << message(errors[rank]);
  }
}

TEST(ShardedBehaviour, AParameterWithoutAGradientCountsAsZero) {
  run_all(2, [](Communicator& communicator) {
    ShardedDataParallel model(Tower(1), communicator, {.shard = Shard::gradients});
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      // Rank 1 leaves out the list's layers.
      if (communicator.rank() == 0) {
        squares(model(input(i)), input(900)).backward();
      } else {
        model.begin_forward();
        const at::Tensor output =
            model.model().last(at::tanh(model.model().first(input(i))) * model.model().scale);
        model.end_forward();
        squares(output, input(900)).backward();
      }
      optimizer.step();
    }
    const auto whole = model.whole();
    EXPECT_TRUE(same_everywhere(communicator, bits(unique_parameters(model.model()))));
  });
}

}  // namespace
}  // namespace kolo::test::sharded
