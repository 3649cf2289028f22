// Each pair of ways to divide a job, and three at once, makes the steps of one process with the whole batch.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/hybrid/layers.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::hybrid {
namespace {

constexpr int kSteps = 20;
constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kBorder = 3;  ///< the first layer of the second stage

using Whole = std::map<std::string, at::Tensor>;

at::Tensor input(int step) {
  return numbers(kBatch, kInputs, 31 * step).to(at::kDouble);
}
at::Tensor target(int step) {
  return numbers(kBatch, kOutputs, 17 * step + 5).to(at::kDouble);
}

/// This rank's rows of the batch.
at::Tensor part_of(const at::Tensor& batch, Grid& grid) {
  const std::int64_t rows = kBatch / (grid.data().size() * grid.sharded().size());
  return batch.narrow(0, rows * grid.batch_part(), rows);
}

torch::optim::SGD momentum(const std::vector<at::Tensor>& parameters) {
  return torch::optim::SGD(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// All parameters of the model that one process trains, before and after.
struct OneProcess {
  Whole before, after;
  double norm;  ///< of the last gradients
};

OneProcess train_alone(Communicator alone) {
  torch::nn::Sequential model = layers(0, kLayers, alone);
  fill(*model, 1);
  OneProcess result;
  const PlacedModel placed(placed_parameters(*model), alone);
  result.before = gather_whole_parameters(placed);
  auto optimizer = momentum(model->parameters());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    squares(model->forward(input(step)), target(step)).backward();
    optimizer.step();
  }
  result.after = gather_whole_parameters(placed);
  result.norm = gradient_norm(placed);
  return result;
}

/// This rank's layers, and what makes the steps of their optimizer.
struct Trained {
  torch::nn::Sequential layers;
  std::vector<at::Tensor> parameters;
  std::function<void(const at::Tensor& input, const at::Tensor& target)> backward;
  PlacedModel placed;
  std::shared_ptr<void> wrapper;
};

Trained in_one_stage(torch::nn::Sequential model, Grid& grid) {
  if (grid.sharded().size() == 1) {
    DistributedDataParallelOptions options = small_buckets();
    options.holders = grid.replica();
    auto parallel =
        std::make_shared<DistributedDataParallel<torch::nn::SequentialImpl>>(model, grid.data(), options);
    return {.layers = model,
            .parameters = parallel->parameters(),
            .backward = [parallel](const at::Tensor& in,
                                   const at::Tensor& out) { squares((*parallel)(in), out).backward(); },
            .placed = parallel->placed(),
            .wrapper = parallel};
  }
  auto parallel = std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(
      model, grid.sharded(), ShardedDataParallelOptions{.holders = grid.replica()});
  return {.layers = model,
          .parameters = parallel->parameters(),
          .backward =
              [parallel, &grid](const at::Tensor& in, const at::Tensor& out) {
                squares((*parallel)(in), out).backward();
                average_gradients(parallel->parameters(), grid.data());
              },
          .placed = parallel->placed(),
          .wrapper = parallel};
}

Trained in_stages(torch::nn::Sequential stage, Grid& grid, const PipelineParallelOptions& options) {
  if (grid.sharded().size() == 1) {
    auto pipeline = std::make_shared<PipelineParallel>(std::vector<PipelineStage>{stage}, squares,
                                                       grid.pipeline(), options);
    return {.layers = stage,
            .parameters = pipeline->parameters(),
            .backward = [pipeline](const at::Tensor& in, const at::Tensor& out) { pipeline->step(in, out); },
            .placed = pipeline->placed(),
            .wrapper = pipeline};
  }
  auto shards = std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(stage, grid.sharded());
  auto pipeline = std::make_shared<PipelineParallel>(
      std::vector<PipelineStage>{
          PipelineStage(stage.ptr(), [shards](const at::Tensor& x) -> at::Tensor { return (*shards)(x); })},
      squares, grid.pipeline(), options);
  return {.layers = stage,
          .parameters = shards->parameters(),
          .backward = [pipeline, shards](const at::Tensor& in,
                                         const at::Tensor& out) { pipeline->step(in, out); },
          .placed = pipeline->placed(),
          .wrapper = pipeline};
}

Trained make(Grid& grid, const Whole& weights, PipelineParallelOptions options) {
  const bool has_stages = grid.pipeline().size() > 1;
  const std::int64_t begin = has_stages && grid.pipeline().rank() == 1 ? kBorder : 0;
  const std::int64_t end = has_stages && grid.pipeline().rank() == 0 ? kBorder : kLayers;
  torch::nn::Sequential mine = layers(begin, end, grid.tensor());
  load_whole_parameters(placed_parameters(*mine), weights);
  if (!has_stages) return in_one_stage(mine, grid);
  options.data = grid.data();
  options.holders = grid.replica();
  return in_stages(mine, grid, options);
}

void expect_one_process(const GridOptions& shape,
                        const PipelineParallelOptions& options = {.micro_batches = 4}) {
  run_all(shape.data * shape.sharded * shape.pipeline * shape.tensor, [&](Communicator& communicator) {
    at::set_num_threads(1);
    const OneProcess alone = train_alone(communicator.split(communicator.rank()));
    Grid grid(communicator, shape);
    const Trained trained = make(grid, alone.before, options);
    auto optimizer = momentum(trained.parameters);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      trained.backward(part_of(input(step), grid), part_of(target(step), grid));
      optimizer.step();
    }
    const Whole after = gather_whole_parameters(trained.placed);
    EXPECT_EQ(after.size(), alone.after.size());
    EXPECT_NEAR(gradient_norm(trained.placed), alone.norm, 1e-10 * alone.norm);
    for (const auto& [name, value] : after) {
      ASSERT_TRUE(alone.after.contains(name)) << name;
      EXPECT_LT((value - alone.after.at(name)).abs().max().item().toDouble(), 1e-10) << name;
      EXPECT_GT((value - alone.before.at(name)).abs().max().item().toDouble(), 1e-3) << name;
    }
  });
}

TEST(Hybrid, DataAndPipeline) {
  expect_one_process({.data = 2, .pipeline = 2});
}

TEST(Hybrid, DataAndTensor) {
  expect_one_process({.data = 2, .tensor = 2});
}

TEST(Hybrid, DataAndSharded) {
  expect_one_process({.data = 2, .sharded = 2});
}

TEST(Hybrid, PipelineAndTensor) {
  expect_one_process({.pipeline = 2, .tensor = 2});
}

TEST(Hybrid, PipelineAndSharded) {
  expect_one_process({.sharded = 2, .pipeline = 2});
}

TEST(Hybrid, PipelineThatKeepsAllMicroBatchesAndSharded) {
  expect_one_process({.sharded = 2, .pipeline = 2},
                     {.schedule = PipelineSchedule::gpipe, .micro_batches = 4});
}

TEST(Hybrid, TensorAndSharded) {
  expect_one_process({.sharded = 2, .tensor = 2});
}

TEST(Hybrid, DataAndTensorAndPipeline) {
  expect_one_process({.data = 2, .pipeline = 2, .tensor = 2});
}

TEST(Hybrid, OneRank) {
  expect_one_process({});
}

}  // namespace
}  // namespace kolo::test::hybrid
