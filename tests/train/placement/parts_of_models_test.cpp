// Parts of a model: lists of them are refused where they would be taken for the whole.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::placement {
namespace {

void expect_said(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << '\'' << text << "' without '" << part << '\'';
}

torch::nn::Sequential two_layers() {
  torch::nn::Sequential net(torch::nn::Linear(8, 8), torch::nn::Linear(8, 8));
  fill(*net, 1);
  return net;
}

PipelineParallel pipeline_of(const torch::nn::Sequential& net, Communicator& communicator) {
  return {PipelineModel{net, {}}, squares, communicator, {.micro_batches = 1}};
}

void give_gradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::ones_like(parameter);
}

TEST(PartsOfModels, HaveNoNormThatEachRankTakesForItself) {
  run_all(2, [](Communicator& communicator) {
    for (const Shard shard : {Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      const auto net = two_layers();
      ShardedDataParallel model(net, communicator, {.shard = shard});
      give_gradients(model.parameters());
      expect_said(refusal_of([&] { clip_gradients(model.parameters(), 1); }),
                  "of a ShardedDataParallel, and each rank would get another norm: pass its placed()");
      expect_said(
          refusal_of([&] { clip_gradients(net->parameters(), 1); }),
          "in shards of a ShardedDataParallel, and each rank would get another norm: pass its placed()");
      EXPECT_EQ(clip_gradients(model.placed(), 1), 12);
      LARS lars(model.parameters(), LARSOptions(0.1));
      LAMB lamb(model.parameters(), LAMBOptions(0.1));
      expect_said(refusal_of([&] { lars.step(); }), "give it kolo::sum_over_ranks() of the placed() model");
      expect_said(refusal_of([&] { lamb.step(); }), "give it kolo::sum_over_ranks() of the placed() model");
      LARS with_sums(model.parameters(), LARSOptions(0.1), sum_over_ranks(model.placed()));
      with_sums.step();
    }
    const auto net = two_layers();
    {
      const PipelineParallel pipeline = pipeline_of(net, communicator);
      give_gradients(pipeline.parameters());
      expect_said(refusal_of([&] { clip_gradients(pipeline.parameters(), 1); }),
                  " of 2 of a PipelineParallel, and each rank would get another norm: pass its placed()");
      EXPECT_EQ(clip_gradients(pipeline.placed(), 1), 12);
      LARS(pipeline.parameters(), LARSOptions(0.1)).step();  // norms of layers, which are whole
    }
    {
      DistributedDataParallelOptions options;
      options.overlap_forward = [](const auto& parameters) {
        return std::make_unique<torch::optim::SGD>(parameters, 0.1);
      };
      auto earlier =
          std::make_unique<DistributedDataParallel<torch::nn::SequentialImpl>>(net, communicator, options);
      expect_said(refusal_of([&] { clip_gradients(earlier->placed(), 1); }),
                  "overlap_forward exclude each other");
      const PipelineParallel pipeline = pipeline_of(net, communicator);
      earlier.reset();
      expect_said(refusal_of([&] { clip_gradients(pipeline.parameters(), 1); }), "of a PipelineParallel");
    }
    give_gradients(net->parameters());
    EXPECT_EQ(clip_gradients(net->parameters(), 1), 12) << "the whole model again";

    torch::manual_seed(1);
    ColumnParallelLinear layer(ColumnParallelLinearOptions{.in_features = 8, .out_features = 8},
                               communicator);
    give_gradients(layer->parameters());
    expect_said(refusal_of([&] { clip_gradients(layer->parameters(), 1); }),
                "pass a PlacedModel of placed_parameters()");
    expect_said(refusal_of([&] { LARS(layer->parameters(), LARSOptions(0.1)).step(); }), "sum_over_ranks()");
    expect_said(refusal_of([&] { LAMB(layer->parameters(), LAMBOptions(0.1)).step(); }), "sum_over_ranks()");
  });
}

TEST(PartsOfModels, AreNotMixedWithOtherParts) {
  run_all(2, [](Communicator& communicator) {
    const torch::nn::Linear stage(8, 8);  // of the same shapes on both ranks
    const PipelineParallel pipeline({stage}, squares, communicator, {.micro_batches = 1});
    const std::string other = "part 1 of 2 of a PipelineParallel where rank 0 has";
    expect_said(refusal_of([&] { broadcast(*stage, communicator); }), other);
    expect_said(refusal_of([&] { average_parameters(*stage, communicator); }), other);
    expect_said(refusal_of([&] { ShardedDataParallel(stage, communicator, {}); }), other);
  });
}

TEST(PartsOfModels, AreEachRanksOwnInACheckpoint) {
  const std::string path = testing::TempDir() + "kolo_parts";
  run_all(2, [&](Communicator& communicator) {
    torch::nn::Linear stage(8, 8);
    fill(*stage, communicator.rank());
    const auto before = bits(stage->parameters());
    const PipelineParallel pipeline({stage}, squares, communicator, {.micro_batches = 1});
    torch::optim::SGD steps(pipeline.parameters(), 0.1);
    const std::string says = "part 1 of 2 of a PipelineParallel where rank 0 has";
    expect_said(refusal_of([&] { Checkpoint().add("stage", *stage).save(path, 1, communicator); }), says);
    expect_said(refusal_of([&] { Checkpoint().add("steps", steps).save(path, 1, communicator); }), says);

    Checkpoint own;
    own.add_own("stage", *stage).add_own("steps", steps);
    own.save(path, 1, communicator);
    own.wait();
    fill(*stage, 9);
    EXPECT_EQ(own.load(path, communicator), 1u);
    EXPECT_EQ(bits(stage->parameters()), before);

    const ShardedDataParallel sharded(two_layers(), communicator, {});
    torch::optim::SGD of_shards(sharded.parameters(), 0.1);
    expect_said(refusal_of([&] { Checkpoint().add("steps", of_shards).load(path, communicator); }),
                "add the wrapper of the model");
  });
  std::filesystem::remove_all(path);
}

TEST(PartsOfModels, ASecondWrapperOfShardsIsRefused) {
  const std::string text = error_of_all(2, [](Communicator& communicator) {
    const auto net = two_layers();
    const ShardedDataParallel first(net, communicator, {});
    const DistributedDataParallel second(net, communicator);
  });
  expect_said(text, "another object averages the gradient of '0.weight'");
}

}  // namespace
}  // namespace kolo::test::placement
