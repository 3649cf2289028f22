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
#include "kolo/train/parallel_layers.hpp"
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
};

OneProcess train_alone(Communicator alone) {
  torch::nn::Sequential model = layers(0, kLayers, alone);
  fill(*model, 1);
  OneProcess result;
  result.before = gather_whole_parameters(*model, alone);
  auto optimizer = momentum(model->parameters());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    squares(model->forward(input(step)), target(step)).backward();
    optimizer.step();
  }
  result.after = gather_whole_parameters(*model, alone);
  return result;
}

/// This rank's layers, and what makes the steps of their optimizer.
struct Trained {
  torch::nn::Sequential layers;
  std::vector<at::Tensor> parameters;
  std::function<void(const at::Tensor& input, const at::Tensor& target)> backward;
  std::function<Whole()> gather;
  std::shared_ptr<void> wrapper;
};

Trained in_one_stage(torch::nn::Sequential model, Grid& grid) {
  if (grid.sharded().size() == 1) {
    auto parallel = std::make_shared<DistributedDataParallel<torch::nn::SequentialImpl>>(model, grid.data(),
                                                                                         small_buckets());
    return {.layers = model,
            .parameters = parallel->parameters(),
            .backward = [parallel](const at::Tensor& in,
                                   const at::Tensor& out) { squares((*parallel)(in), out).backward(); },
            .gather = [model, &grid] { return gather_whole_parameters(*model, grid.tensor()); },
            .wrapper = parallel};
  }
  auto parallel = std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(model, grid.sharded());
  return {.layers = model,
          .parameters = parallel->parameters(),
          .backward =
              [parallel, &grid](const at::Tensor& in, const at::Tensor& out) {
                squares((*parallel)(in), out).backward();
                average_gradients(parallel->parameters(), grid.data());
              },
          .gather =
              [parallel, model, &grid] {
                const auto whole = parallel->whole();
                return gather_whole_parameters(*model, grid.tensor());
              },
          .wrapper = parallel};
}

Trained in_stages(torch::nn::Sequential stage, Grid& grid, const PipelineParallelOptions& options) {
  if (grid.sharded().size() == 1) {
    auto pipeline = std::make_shared<PipelineParallel>(std::vector<PipelineStage>{stage}, squares,
                                                       grid.pipeline(), options);
    return {.layers = stage,
            .parameters = pipeline->parameters(),
            .backward = [pipeline](const at::Tensor& in, const at::Tensor& out) { pipeline->step(in, out); },
            .gather = [stage, &grid] { return gather_whole_parameters(*stage, grid.tensor()); },
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
          .gather =
              [shards, stage, &grid] {
                const auto whole = shards->whole();
                return gather_whole_parameters(*stage, grid.tensor());
              },
          .wrapper = pipeline};
}

Trained make(Grid& grid, const Whole& weights, PipelineParallelOptions options) {
  const bool has_stages = grid.pipeline().size() > 1;
  const std::int64_t begin = has_stages && grid.pipeline().rank() == 1 ? kBorder : 0;
  const std::int64_t end = has_stages && grid.pipeline().rank() == 0 ? kBorder : kLayers;
  torch::nn::Sequential mine = layers(begin, end, grid.tensor());
  load_whole_parameters(*mine, weights);
  if (!has_stages) return in_one_stage(mine, grid);
  options.data = grid.data();
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
    const Whole after = trained.gather();
    EXPECT_FALSE(after.empty());
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
