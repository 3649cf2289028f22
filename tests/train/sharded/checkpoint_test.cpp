// Shards in a checkpoint: it is that of the whole model, so another number of ranks can go on.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded {
namespace {

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<Optimizer(const std::vector<at::Tensor>&, const SumOverRanks&)>;

class ShardedCheckpoint : public testing::Test {
 protected:
  ~ShardedCheckpoint() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ / "run"; }

 private:
  std::filesystem::path make() {
    std::string name = std::filesystem::temp_directory_path() / "kolo-sharded-XXXXXX";
    return mkdtemp(name.data());
  }
  std::filesystem::path folder_ = make();
};

struct Run {
  Run(Communicator& communicator, Shard shard, const MakeOptimizer& make)
      : model(Tower(2), communicator, {.shard = shard}),
        optimizer(make(model.parameters(), sum_over_ranks(model.placed()))) {
    checkpoint.add("model", model).add("optimizer", *optimizer);
  }
  /// All ranks have the same samples, so that their number does not matter.
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      optimizer->zero_grad();
      squares(model(numbers(3, 7, step).to(at::kDouble)), numbers(3, 7, 900).to(at::kDouble)).backward();
      optimizer->step();
    }
  }
  std::vector<at::Tensor> values() {
    const auto whole = model.whole();
    std::vector<at::Tensor> result;
    for (const at::Tensor& parameter : unique_parameters(model.model()))
      result.push_back(parameter.detach().clone());
    return result;
  }

  ShardedDataParallel<TowerImpl> model;
  Optimizer optimizer;
  Checkpoint checkpoint;
};

void expect_to_go_on(const std::string& file, const MakeOptimizer& make) {
  std::vector<at::Tensor> straight;
  run_all(4, [&](Communicator& communicator) {
    at::set_num_threads(1);
    Run run(communicator, Shard::parameters, make);
    run.train(0, 5);
    run.checkpoint.save(file, 5, communicator);
    run.train(5, 10);
    const auto values = run.values();
    if (communicator.rank() == 0) straight = values;
  });
  for (const auto& [ranks, shard] : {std::pair(4, Shard::parameters), std::pair(3, Shard::gradients),
                                     std::pair(2, Shard::parameters), std::pair(1, Shard::optimizer_state)}) {
    run_all(ranks, [&, shard = shard](Communicator& communicator) {
      at::set_num_threads(1);
      Run run(communicator, shard, make);
      run.train(0, 2);  // what is there before is replaced
      EXPECT_EQ(run.checkpoint.load(file, communicator), 5U);
      run.train(5, 10);
      const auto values = run.values();
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_LT((values[i] - straight[i]).abs().max().item().toDouble(), 1e-10) << "parameter " << i;
    });
  }
}

TEST_F(ShardedCheckpoint, AdamGoesOnWithAnotherNumberOfRanks) {
  expect_to_go_on(file(), [](const auto& parameters, const SumOverRanks&) {
    return std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(0.01).weight_decay(0.01));
  });
}

TEST_F(ShardedCheckpoint, MomentumGoesOnToo) {
  expect_to_go_on(file(), [](const auto& parameters, const SumOverRanks&) {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  });
}

TEST_F(ShardedCheckpoint, LambGoesOnToo) {
  expect_to_go_on(file(), [](const auto& parameters, const SumOverRanks& sum) {
    return std::make_unique<LAMB>(parameters, LAMBOptions(0.02), sum);
  });
}

TEST_F(ShardedCheckpoint, HoldsShardsInFloat32ThatComputeIn16Bits) {
  const auto make = [](Communicator& communicator, double seed) {
    return ShardedDataParallel<TowerImpl>(Tower(seed, 7, 3, at::kFloat), communicator,
                                          {.gather_type = at::kBFloat16});
  };
  std::map<std::string, at::Tensor> expected;
  run_all(3, [&](Communicator& communicator) {
    at::set_num_threads(1);
    auto model = make(communicator, 1);
    torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(0.01));
    squares(model(numbers(3, 7, 1).to(at::kBFloat16)).to(at::kFloat), numbers(3, 7, 900)).backward();
    optimizer.step();
    Checkpoint checkpoint;
    checkpoint.add("model", model).add("optimizer", optimizer).save(file(), 1, communicator);
    const auto values = gather_whole_parameters(model.placed());
    if (communicator.rank() == 0) expected = values;
  });
  run_all(2, [&](Communicator& communicator) {
    auto model = make(communicator, 5);
    torch::optim::Adam optimizer(model.parameters());
    Checkpoint checkpoint;
    checkpoint.add("model", model).add("optimizer", optimizer).load(file(), communicator);
    for (const auto& [name, value] : gather_whole_parameters(model.placed())) {
      EXPECT_EQ(value.scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
    }
    squares(model(numbers(3, 7, 2).to(at::kBFloat16)).to(at::kFloat), numbers(3, 7, 900)).backward();
    optimizer.step();
  });
  run_all(1, [&](Communicator& communicator) {
    Tower tower(9, 7, 3, at::kFloat);
    Checkpoint().add("model", *tower).load(file(), communicator);
    for (const PlacedParameter& one : placed_parameters(*tower))
      EXPECT_TRUE(at::equal(one.tensor, expected.at(one.name))) << one.name;
  });
}

}  // namespace
}  // namespace kolo::test::sharded
