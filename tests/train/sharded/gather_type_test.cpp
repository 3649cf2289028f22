// ShardedDataParallel with parameters in bfloat16, and shards in float32.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <vector>

#include "kolo/train/optim.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded::gather_type {
namespace {

using Tensors = std::vector<at::Tensor>;
using Type = std::optional<at::ScalarType>;

at::Tensor shards_of(const ShardedDataParallel<TowerImpl>& model) {
  Tensors all;
  for (const at::Tensor& shard : model.parameters()) all.push_back(shard.detach().flatten().to(at::kFloat));
  return at::cat(all);
}

void step(ShardedDataParallel<TowerImpl>& model, torch::optim::Optimizer& optimizer, at::ScalarType type,
          int seed) {
  optimizer.zero_grad();
  const at::Tensor output = model(numbers(3, 7, seed).to(type));
  squares(output.to(at::kFloat), numbers(3, 7, 900)).backward();
  optimizer.step();
}

/// How far the shards move in some small steps.
at::Tensor way_of(Communicator& communicator, Shard shard, at::ScalarType module_type, const Type& gather) {
  ShardedDataParallel model(Tower(1, 7, 3, module_type), communicator,
                            {.shard = shard, .gather_type = gather});
  const at::Tensor before = shards_of(model);
  torch::optim::SGD optimizer(model.parameters(), 2e-3);
  for (int i = 0; i < 20; ++i) step(model, optimizer, gather.value_or(module_type), i);
  return shards_of(model) - before;
}

TEST(ShardedGatherType, SmallStepsAddUpInTheShards) {
  run_all(2, [](Communicator& communicator) {
    at::set_num_threads(1);
    for (const Shard shard : kShards) {
      const at::Tensor exact = way_of(communicator, shard, at::kFloat, {});
      const auto error = [&](at::ScalarType module_type, const Type& gather) {
        const at::Tensor way = way_of(communicator, shard, module_type, gather);
        return ((way - exact).norm() / exact.norm()).item().toDouble();
      };
      EXPECT_LT(error(at::kFloat, at::kBFloat16), 0.05) << static_cast<int>(shard);
      EXPECT_LT(error(at::kBFloat16, at::kBFloat16), 0.1) << static_cast<int>(shard);
      EXPECT_GT(error(at::kBFloat16, {}), 0.5) << static_cast<int>(shard);  // too small for bfloat16
    }
  });
}

TEST(ShardedGatherType, ShardsGradientsAndOptimizerAreFloat32) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      ShardedDataParallel model(Tower(1, 7, 3, at::kFloat), communicator,
                                {.shard = shard, .gather_type = at::kBFloat16});
      torch::optim::Adam optimizer(model.parameters(), 1e-3);
      step(model, optimizer, at::kBFloat16, 0);
      for (const at::Tensor& parameter : model.model().parameters())
        EXPECT_EQ(parameter.scalar_type(), at::kBFloat16);
      for (const at::Tensor& parameter : model.parameters()) {
        EXPECT_EQ(parameter.scalar_type(), at::kFloat);
        EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
        const auto& state = dynamic_cast<torch::optim::AdamParamState&>(*state_of(optimizer, parameter));
        EXPECT_EQ(state.exp_avg().scalar_type(), at::kFloat);
      }
    }
  });
}

TEST(ShardedGatherType, WhatIsNotWrittenKeepsItsFloat32) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      ShardedDataParallel model(Tower(1, 7, 3, at::kFloat), communicator,
                                {.shard = shard, .gather_type = at::kBFloat16});
      torch::optim::SGD optimizer(model.parameters(), 1e-3);
      step(model, optimizer, at::kBFloat16, 0);
      const at::Tensor before = shards_of(model);
      {
        const auto whole = model.whole();
        const c10::NoGradGuard no_grad;
        model.model().scale[0] = 0.5;
      }
      const at::Tensor after = shards_of(model);
      const std::int64_t moved = (before != after).sum().item().toLong();
      std::int64_t all = moved;
      communicator.all_reduce(Buffer(&all, 1, DType::int64));
      EXPECT_EQ(all, 1);
      const auto whole = model.whole();
      EXPECT_EQ(model.model().scale[0].item().toDouble(), 0.5);
    }
  });
}

TEST(ShardedGatherType, AutocastCastsTheInputs) {
  run_all(2, [](Communicator& communicator) {
    ShardedDataParallel model(Tower(1, 7, 3, at::kFloat), communicator, {.gather_type = at::kBFloat16});
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    double first = 0, last = 0;
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      const Autocast autocast;
      const at::Tensor loss = squares(model(numbers(3, 7, 1)).to(at::kFloat), numbers(3, 7, 900));
      loss.backward();
      optimizer.step();
      (i == 0 ? first : last) = loss.item().toDouble();
    }
    EXPECT_LT(last, 0.8 * first);
  });
}

TEST(ShardedGatherType, OtherTypesAreRefusedOnAllRanks) {
  const auto refusal = [](at::ScalarType module_type, const std::function<Type(int rank)>& gather) {
    return error_of_all(2, [&](Communicator& communicator) {
      const ShardedDataParallel model(Tower(1, 7, 3, module_type), communicator,
                                      {.gather_type = gather(communicator.rank())});
    });
  };
  const std::string wide = refusal(at::kDouble, [](int) { return at::kBFloat16; });
  EXPECT_NE(wide.find("gather_type BFloat16 serves parameters of Float, and 'scale' is one of Double"),
            std::string::npos)
      << wide;
  const std::string whole = refusal(at::kFloat, [](int) { return at::kInt; });
  EXPECT_NE(whole.find("gather_type is BFloat16 or Half, and not Int"), std::string::npos) << whole;
  const std::string one = refusal(at::kFloat, [](int rank) { return rank == 0 ? Type(at::kHalf) : Type(); });
  EXPECT_NE(one.find("gather_type Half"), std::string::npos) << one;
}

}  // namespace
}  // namespace kolo::test::sharded::gather_type
