// ShardedDataParallel and parameters that want no gradient: those of a model that is only adapted, and those
// that are frozen or thawed while it trains.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "support/temporary_folder.hpp"
#include "train/sharded/adapted.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded::frozen {
namespace {

std::vector<at::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : module.parameters()) result.push_back(parameter.detach().clone());
  return result;
}
double difference(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  double most = 0;
  for (std::size_t i = 0; i < some.size(); ++i)
    most = std::max(most, (some[i] - others[i]).abs().max().item().toDouble());
  return most;
}

/// What may come between two steps, by the number of the step before it.
using Events = std::map<int, std::function<void(AdaptedImpl&)>>;

template <typename Wrapper>
void train(Wrapper& model, const std::vector<at::Tensor>& parameters, const Events& events = {}) {
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  for (int i = 0; i < 6; ++i) {
    // In libtorch 1.13 zero_grad() leaves zeros, by which AdamW still moves.
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    squares(model(numbers(3, 8, i)), numbers(3, 8, 900)).backward();
    optimizer.step();
    if (events.contains(i)) events.at(i)(*model.operator->());
  }
}

TEST(ShardedFrozen, AnAdaptedModelTrainsAsInOnePiece) {
  run_all(3, [](Communicator& communicator) {
    at::set_num_threads(1);
    DistributedDataParallel plain(Adapted(1, 8, 4), communicator);
    std::vector<at::Tensor> trained;
    for (const at::Tensor& parameter : plain.parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
    const auto before = copies_of(plain.model());
    train(plain, trained);
    for (const Shard shard : kShards) {
      ShardedDataParallel model(Adapted(1 + communicator.rank(), 8, 4), communicator, {.shard = shard});
      EXPECT_EQ(model.parameters().size(), trained.size());
      train(model, model.parameters());
      const auto whole = model.whole();
      EXPECT_LT(difference(copies_of(model.model()), copies_of(plain.model())), 1e-6);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (model.model().parameters()[i].requires_grad()) continue;
        EXPECT_TRUE(at::equal(model.model().parameters()[i], before[i])) << i;
      }
    }
  });
}

TEST(ShardedFrozen, AParameterIsFrozenAndThawedBetweenSteps) {
  const auto freeze = [](bool is_frozen) {
    return [is_frozen](AdaptedImpl& model) { model.layer(1).down->weight.set_requires_grad(!is_frozen); };
  };
  const Events events = {{1, freeze(true)}, {3, freeze(false)}};
  run_all(2, [&](Communicator& communicator) {
    at::set_num_threads(1);
    struct Alone {
      Adapted model{1, 8, 4};
      at::Tensor operator()(const at::Tensor& x) { return model(x); }
      AdaptedImpl* operator->() { return model.get(); }
    } alone;
    std::vector<at::Tensor> trained;
    for (const at::Tensor& parameter : alone.model->parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
    train(alone, trained, events);
    for (const Shard shard : kShards) {
      ShardedDataParallel model(Adapted(1, 8, 4), communicator, {.shard = shard});
      Events with_reads = events;
      // Accumulators of gradients are looked at again after whole().
      with_reads[2] = [&](AdaptedImpl&) { const auto whole = model.whole(); };
      train(model, model.parameters(), with_reads);
      const auto whole = model.whole();
      EXPECT_LT(difference(copies_of(model.model()), copies_of(*alone.model)), 1e-6)
          << "shard " << static_cast<int>(shard);
    }
  });
}

TEST(ShardedFrozen, AThawedParameterIsAnErrorThatNamesIt) {
  for (const Shard shard : kShards) {
    for (const std::set<int>& ranks : {std::set{0, 1}, std::set{1}}) {
      const std::string said = error_of_all(2, [&](Communicator& communicator) {
        ShardedDataParallel model(Adapted(1, 8, 4), communicator, {.shard = shard});
        train(model, model.parameters(), {{0, [&](AdaptedImpl& adapted) {
                                             if (ranks.contains(communicator.rank()))
                                               adapted.layer(1).base->weight.set_requires_grad(true);
                                           }}});
      });
      EXPECT_NE(
          said.find(ranks.size() == 2 ? "parameter 'layers.1.base.weight' was frozen" : "rank 1 aborted"),
          std::string::npos)
          << said;
    }
  }
}

TEST(ShardedFrozen, FrozenParametersAreRoundedToTheGatherType) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : kShards) {
      ShardedDataParallel model(Adapted(1, 8, 4), communicator,
                                {.shard = shard, .gather_type = at::kBFloat16});
      torch::optim::AdamW optimizer(model.parameters(), 0.01);
      squares(model(numbers(3, 8, 1).to(at::kBFloat16)).to(at::kFloat), numbers(3, 8, 900)).backward();
      optimizer.step();
      const auto whole = model.whole();
      Adapted original(1, 8, 4);
      EXPECT_TRUE(
          at::equal(model.model().layer(1).base->weight, original->layer(1).base->weight.to(at::kBFloat16)));
    }
  });
}

/// With gather_type frozen parameters have 16 bits: in a checkpoint too, from and to wrappers of float32.
TEST(ShardedFrozen, OnesOf16BitsGoThroughACheckpointToFloat32AndBack) {
  const TemporaryFolder folder;
  run_all(2, [&](Communicator& communicator) {
    const auto go = [&](const auto& model, bool saves) {
      Checkpoint checkpoint;
      checkpoint.add("model", model.placed());
      if (!saves) return checkpoint.load(folder / "run", communicator);
      checkpoint.save(folder / "run", 1, communicator);
      checkpoint.wait();
      return std::uint64_t{1};
    };
    const ShardedDataParallelOptions in_16_bits{.gather_type = at::kBFloat16};
    const ShardedDataParallel model(Adapted(1, 8, 4), communicator, in_16_bits),
        again(Adapted(2, 8, 4), communicator, in_16_bits);
    const DistributedDataParallel plain(Adapted(3, 8, 4), communicator);
    go(model, true);
    go(plain, false);
    go(plain, true);
    go(again, false);
    const auto there = gather_whole_parameters(model.placed()),
               here = gather_whole_parameters(plain.placed());
    const auto back = gather_whole_parameters(again.placed());
    std::set<at::ScalarType> types;
    for (const auto& [name, values] : there) {
      types.insert(values.scalar_type());
      EXPECT_EQ(here.at(name).scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(at::equal(here.at(name), values.to(at::kFloat))) << name;
      EXPECT_TRUE(at::equal(back.at(name), values)) << name;
    }
    EXPECT_EQ(types, (std::set{at::kFloat, at::kBFloat16}));
  });
}

}  // namespace
}  // namespace kolo::test::sharded::frozen
