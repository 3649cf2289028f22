// partition() finds the best of all cuts, and measure_layers() what layers cost.
#include "kolo/train/pipeline_parallel.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "train/pipeline/training.hpp"

namespace kolo::test::pipeline {
namespace {

/// The slowest stage of given borders.
double slowest_of(const std::vector<LayerCost>& layers, const std::vector<std::int64_t>& borders,
                  const TransferCost& transfer) {
  double slowest = 0;
  for (std::size_t stage = 0; stage <= borders.size(); ++stage) {
    const std::int64_t begin = stage == 0 ? 0 : borders[stage - 1];
    const std::int64_t end =
        stage == borders.size() ? static_cast<std::int64_t>(layers.size()) : borders[stage];
    double seconds = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const LayerCost& layer = layers[static_cast<std::size_t>(i)];
      seconds += layer.forward_s + layer.backward_s;
    }
    const auto sent = [&](std::int64_t layer) {
      const auto bytes = static_cast<double>(layers[static_cast<std::size_t>(layer)].output_bytes);
      return transfer.latency_s + bytes / transfer.bytes_per_second;
    };
    if (stage > 0) seconds += sent(begin - 1);
    if (stage < borders.size()) seconds += sent(end - 1);
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

/// The best of all borders, one after the other.
double best_of_all(const std::vector<LayerCost>& layers, int stages, const TransferCost& transfer,
                   std::vector<std::int64_t> borders = {}) {
  if (borders.size() + 1 == static_cast<std::size_t>(stages)) return slowest_of(layers, borders, transfer);
  double best = std::numeric_limits<double>::infinity();
  const std::int64_t first = borders.empty() ? 1 : borders.back() + 1;
  for (std::int64_t border = first; border < static_cast<std::int64_t>(layers.size()); ++border) {
    borders.push_back(border);
    best = std::min(best, best_of_all(layers, stages, transfer, borders));
    borders.pop_back();
  }
  return best;
}

TEST(Partition, IsTheBestOfAllCuts) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> seconds(0, 1);
  std::uniform_int_distribution<std::uint64_t> bytes(0, 1'000'000);
  for (int round = 0; round < 100; ++round) {
    std::vector<LayerCost> layers(8);
    for (LayerCost& layer : layers)
      layer = {.forward_s = seconds(random), .backward_s = seconds(random), .output_bytes = bytes(random)};
    const TransferCost transfer =
        round % 3 == 0 ? TransferCost{} : TransferCost{0.1 * seconds(random), 1e6 / seconds(random)};
    for (int stages = 1; stages <= 8; ++stages) {
      const Partition found = partition(layers, stages, transfer);
      EXPECT_NEAR(found.slowest_s, best_of_all(layers, stages, transfer), 1e-12);
      ASSERT_EQ(found.borders.size() + 1, static_cast<std::size_t>(stages));
      EXPECT_NEAR(found.slowest_s, slowest_of(layers, found.borders, transfer), 1e-12);
      EXPECT_TRUE(std::ranges::is_sorted(found.borders));
    }
  }
}

TEST(Partition, RefusesCostsThatHaveNoBestCut) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1.0, infinity, std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<LayerCost> layers(3);
    layers[1].forward_s = seconds;
    EXPECT_THROW(partition(layers, 2), InvalidArgumentError) << seconds;
    layers[1] = {.backward_s = seconds};
    EXPECT_THROW(partition(layers, 2), InvalidArgumentError) << seconds;
    EXPECT_THROW(partition(std::vector<LayerCost>(3), 2, {.latency_s = seconds}), InvalidArgumentError)
        << seconds;
  }
  EXPECT_THROW(partition(std::vector<LayerCost>(3), 2, {.bytes_per_second = 0}), InvalidArgumentError);
}

TEST(StageSeconds, RefusesWhatIsNoStage) {
  const std::vector<LayerCost> layers(3);
  EXPECT_THROW(stage_seconds(layers, -1, 2), InvalidArgumentError);
  EXPECT_THROW(stage_seconds(layers, 2, 2), InvalidArgumentError);
  EXPECT_THROW(stage_seconds(layers, 2, 4), InvalidArgumentError);
  EXPECT_EQ(stage_seconds(layers, 0, 3), 0);
}

TEST(Partition, RefusesMoreStagesThanLayers) {
  const std::vector<LayerCost> layers(3);
  EXPECT_THROW(partition(layers, 4), InvalidArgumentError);
  EXPECT_THROW(partition(layers, 0), InvalidArgumentError);
  EXPECT_EQ(partition(layers, 3).borders, (std::vector<std::int64_t>{1, 2}));
}

TEST(MeasuredLayers, HaveSizesAndTimesAndLeaveTheModelAsItIs) {
  torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::BatchNorm1d(8),
                            torch::nn::Linear(8, 4));
  fill(*net, 1);
  for (const at::Tensor& parameter : net->parameters()) parameter.mutable_grad() = at::ones_like(parameter);
  const std::vector<LayerCost> costs = measure_layers(net, numbers(16, 6, 1), 3);
  ASSERT_EQ(costs.size(), 4U);
  constexpr std::uint64_t kOutputs[] = {512, 512, 512, 256}, kParameters[] = {56, 0, 16, 36};
  for (std::size_t i = 0; i < costs.size(); ++i) {
    EXPECT_EQ(costs[i].name, std::to_string(i));
    EXPECT_EQ(costs[i].output_bytes, kOutputs[i]);
    EXPECT_EQ(costs[i].parameters, kParameters[i]);
    EXPECT_GT(costs[i].forward_s, 0);
    EXPECT_GT(costs[i].backward_s, 0);
  }
  // The ReLU keeps its result, for which the product before it can go; batch normalization keeps means too.
  EXPECT_EQ(costs[0].activation_bytes, 512U);
  EXPECT_EQ(costs[1].activation_bytes, 0U);
  EXPECT_GE(costs[2].activation_bytes, 512U + 2 * 32);
  EXPECT_EQ(net->named_buffers()["2.num_batches_tracked"].item().toLong(), 0);
  for (const at::Tensor& parameter : net->parameters())
    EXPECT_TRUE(at::equal(parameter.grad(), at::ones_like(parameter)));
}

TEST(MeasuredLayers, MayTakeIntegersAndWantAtLeastOne) {
  const torch::nn::Sequential net(torch::nn::Embedding(5, 3), torch::nn::Linear(3, 2));
  const std::vector<LayerCost> costs = measure_layers(net, at::arange(5, at::kLong), 1);
  EXPECT_EQ(costs[0].output_bytes, 60U);
  EXPECT_GT(costs[0].backward_s, 0);
  EXPECT_THROW(measure_layers(torch::nn::Sequential(), numbers(1, 1, 1)), InvalidArgumentError);
  EXPECT_THROW(measure_layers(net, at::arange(5, at::kLong), 0), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::pipeline
