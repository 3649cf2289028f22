// Each wrapper with each feature: it trains as one process does, or construction says why not.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "support/temporary_folder.hpp"
#include "train/composition/wrappers.hpp"
#include "train/hybrid/layers.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::composition {
namespace {

struct Row {
  std::vector<std::string> trains;             ///< features
  std::map<std::string, std::string> refused;  ///< feature, and what the error says
};

const std::map<std::string, Row> kTable = {
    {"ddp",
     {{"amp", "frozen", "no_sync", "hook", "wire", "loss_scale", "clip", "recompute", "checkpoint", "tied",
       "unused"},
      {}}},
    {"ddp, overlap_forward",
     {{"amp", "frozen", "no_sync", "wire", "recompute", "checkpoint", "tied"},
      {{"hook", "the options hook and overlap_forward exclude each other"},
       {"loss_scale", "loss scaling and overlap_forward exclude each other"},
       {"clip", "a norm over all gradients and overlap_forward exclude each other"},
       {"unused", "the options find_unused_parameters and overlap_forward exclude each other"}}}},
    {"shards: state",
     {{"amp", "gather_type", "frozen", "no_sync", "hook", "loss_scale", "clip", "recompute", "checkpoint",
       "tied", "unused"},
      {{"top_k", "cannot average gradients in shards"}}}},
    {"shards: gradients",
     {{"amp", "gather_type", "frozen", "no_sync", "hook", "loss_scale", "clip", "recompute", "checkpoint",
       "tied", "unused"},
      {{"top_k", "cannot average gradients in shards"}}}},
    {"shards: parameters",
     {{"amp", "gather_type", "frozen", "no_sync", "hook", "loss_scale", "clip", "recompute", "checkpoint",
       "tied", "unused"},
      {{"top_k", "cannot average gradients in shards"}}}},
    {"shards x data",
     {{"amp", "gather_type", "frozen", "no_sync", "hook", "loss_scale", "clip", "recompute", "checkpoint",
       "tied", "unused"},
      {}}},
    {"pipeline",
     {{"amp", "frozen", "loss_scale", "clip", "recompute", "checkpoint", "tied", "unused"},
      {{"no_sync", "all micro-batches"}}}},
    {"pipeline of shards",
     {{"amp", "frozen", "loss_scale", "clip", "recompute", "checkpoint", "tied", "unused"},
      {{"no_sync", "all micro-batches"},
       {"tie", "which is in shards of a ShardedDataParallel: tie layers of one stage"}}}},
    {"tensor in ddp",
     {{"amp", "frozen", "no_sync", "hook", "wire", "loss_scale", "clip", "recompute", "checkpoint", "tied",
       "unused"},
      {}}},
    {"DelayedAverages", {{"amp", "frozen", "clip", "recompute", "checkpoint", "tied", "unused"}, {}}},
    {"ModelAverager", {{"amp", "frozen", "clip", "recompute", "checkpoint", "tied", "unused"}, {}}},
};

double largest_difference(const Whole& some, const Whole& others) {
  double largest = 0;
  for (const auto& [name, value] : some) {
    const double difference = (value - others.at(name)).abs().max().item().toDouble();
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
  }
  return largest;
}

/// What one process makes of a feature, each computed once.
const std::pair<Whole, Whole>& one_process(const Features& features, bool is_late) {
  static std::map<std::pair<Features, bool>, std::pair<Whole, Whole>> known;
  auto& [before, after] = known[{features, is_late}];
  if (before.empty()) {
    run_all(1, [&, &before = before, &after = after](Communicator& communicator) {
      before = initial_values(communicator, features);
      const TemporaryFolder folder;
      after = train([&] { return alone(communicator, features, is_late); }, features, communicator,
                    folder / "run");
    });
  }
  return known[{features, is_late}];
}

void expect_to_train(const Wrapper& wrapper, const std::string& feature, const std::string& cell) {
  const Features features{feature};
  const auto& [before, after] = one_process(features, wrapper.is_late);
  const double way = largest_difference(after, before);
  ASSERT_GT(way, 1e-3);
  if (feature == "clip" || feature == "frozen" || feature == "no_sync") {
    ASSERT_GT(largest_difference(after, one_process({}, wrapper.is_late).second), 1e-3);
  }
  if (feature == "checkpoint" && !wrapper.is_late) {
    ASSERT_EQ(largest_difference(after, one_process({}, false).second), 0);
  }
  const TemporaryFolder folder;
  const bool is_rounded =
      feature == "amp" || feature == "gather_type" || feature == "hook" || feature == "wire";
  run_all(wrapper.ranks, [&, &before = before, &after = after](Communicator& communicator) {
    at::set_num_threads(1);
    const auto make = [&] { return wrapper.make(communicator, features, before); };
    const Whole values = train(make, features, communicator, folder / "run");
    EXPECT_FALSE(values.empty());
    EXPECT_LT(largest_difference(values, after), is_rounded ? 0.05 * way : 1e-10) << cell;
  });
}

TEST(Composition, EachCellTrainsAsOneProcessOrIsRefused) {
  at::set_num_threads(1);
  for (const auto& [name, row] : kTable) {
    const Wrapper& wrapper = wrappers().at(name);
    for (const std::string& feature : row.trains) {
      expect_to_train(wrapper, feature, name + " with " + feature);
    }
    for (const auto& [feature, text] : row.refused) {
      const auto& before = one_process({feature}, wrapper.is_late).first;
      const std::string said =
          error_of_all(wrapper.ranks, [&, &feature = feature](Communicator& communicator) {
            wrapper.make(communicator, {feature}, before);
          });
      EXPECT_NE(said.find(text), std::string::npos) << name << " with " << feature << ": " << said;
    }
  }
}

/// Gradients that one rank alone knows are infinite, after averages: a stage's, a shard's, a slice's.
TEST(Composition, AnOverflowOnOneHolderSkipsTheStepOnAll) {
  for (const char* name :
       {"shards: parameters", "shards x data", "pipeline", "pipeline of shards", "tensor in ddp"}) {
    const Wrapper& wrapper = wrappers().at(name);
    const Whole& before = one_process({}, false).first;
    run_all(wrapper.ranks, [&](Communicator& communicator) {
      Trainer trainer = wrapper.make(communicator, {}, before);
      torch::optim::SGD optimizer(trainer.parameters, 0.1);
      LossScaler scaler(*trainer.model, {});
      for (const bool overflows : {true, false}) {
        optimizer.zero_grad();
        trainer.backward(numbers(4, hybrid::kInputs, 1).to(device(), at::kDouble),
                         numbers(4, hybrid::kOutputs, 2).to(device(), at::kDouble));
        const int poisoned = trainer.placed.holders().valid() ? trainer.placed.holders().size() - 1 : 0;
        if (overflows && trainer.placed.holders().rank() == poisoned) {
          for (const at::Tensor& parameter : trainer.parameters) {
            if (parameter.grad().defined()) parameter.grad().fill_(std::numeric_limits<double>::infinity());
          }
        }
        EXPECT_EQ(scaler.step(optimizer), !overflows) << name;
      }
      EXPECT_EQ(scaler.skipped_steps(), 1U) << name;
      const double moved = largest_difference(gather_whole_parameters(trainer.placed), before);
      EXPECT_GT(moved, 0) << name;
      EXPECT_LT(moved, 1) << name;
    });
  }
}

TEST(Composition, WhatWouldBeAveragedTwiceIsRefused) {
  const auto refusal = [](const auto& wrap) {
    return error_of_all(2, [&](Communicator& communicator) {
      const torch::nn::Sequential model(torch::nn::Linear(4, 4));
      wrap(model, communicator);
    });
  };
  const std::string in_shards = "'0.weight' is in shards of a ShardedDataParallel, which averages by itself";
  const std::string heard = "another object averages the gradient of '0.weight'";
  using Net = torch::nn::SequentialImpl;
  const std::vector<std::pair<std::string, std::string>> all = {
      {in_shards, refusal([](const auto& model, Communicator& communicator) {
         const ShardedDataParallel<Net> shards(model, communicator);
         const ModelAverager averager(*model, communicator);
       })},
      {in_shards, refusal([](const auto& model, Communicator& communicator) {
         const ShardedDataParallel<Net> shards(model, communicator);
         const DelayedAverages averages(*model, communicator);
       })},
      {heard, refusal([](const auto& model, Communicator& communicator) {
         const DistributedDataParallel<Net> parallel(model, communicator);
         const ShardedDataParallel<Net> shards(model, communicator);
       })},
  };
  for (const auto& [text, said] : all) EXPECT_NE(said.find(text), std::string::npos) << said;
}

}  // namespace
}  // namespace kolo::test::composition
