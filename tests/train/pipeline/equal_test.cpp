// A pipeline makes the steps of one process with whole batches.
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "kolo/train/precision.hpp"
#include "train/pipeline/training.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::pipeline {
namespace {

using sharded::Tied;
using sharded::unique_parameters;

struct Way {
  PipelineSchedule schedule;
  int ranks;
  int micro_batches;
  int chunks = 1;
  std::vector<std::int64_t> borders = {};
  bool recompute = false;
};

std::string name_of(const Way& way) {
  return pipeline_schedule_names()[static_cast<std::size_t>(way.schedule)] + " on " +
         std::to_string(way.ranks) + " ranks, " + std::to_string(way.micro_batches) + " micro-batches, " +
         std::to_string(way.chunks) + " chunks" + (way.recompute ? ", recomputed" : "");
}

PipelineParallelOptions options_of(const Way& way) {
  return {.schedule = way.schedule,
          .micro_batches = way.micro_batches,
          .chunks = way.chunks,
          .recompute = way.recompute};
}

void expect_equal(const Way& way, const Trained& whole, at::ScalarType type = at::kDouble,
                  double tolerance = 1e-10) {
  run_all(way.ranks, [&](Communicator& communicator) {
    at::set_num_threads(1);
    PipelineParallel pipeline(PipelineModel{tower(type), way.borders}, squares, communicator,
                              options_of(way));
    const Trained part = train_pipeline(pipeline, kPipelineSteps, type);
    EXPECT_FALSE(part.values.empty() && way.borders.empty());
    EXPECT_LT(largest_difference(part.values, whole.values, type != at::kDouble), tolerance) << name_of(way);
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(part.losses[i], whole.losses[i], tolerance) << name_of(way);
  });
}

using enum PipelineSchedule;

TEST(Pipeline, GPipeMakesTheStepsOfOneProcess) {
  const Trained whole = train_whole(tower());
  for (const Way& way : {Way{gpipe, 1, 4}, {gpipe, 2, 6}, {gpipe, 3, 2}, {gpipe, 4, 8}})
    expect_equal(way, whole);
}

TEST(Pipeline, OneForwardOneBackwardMakesThemToo) {
  const Trained whole = train_whole(tower());
  for (const Way& way : {Way{one_forward_one_backward, 1, 3},
                         {one_forward_one_backward, 2, 1},
                         {one_forward_one_backward, 3, 8},
                         {one_forward_one_backward, 4, 6}})
    expect_equal(way, whole);
}

TEST(Pipeline, InterleavedMakesThemToo) {
  const Trained whole = train_whole(tower());
  for (const Way& way : {Way{interleaved, 1, 4, 3},
                         {interleaved, 2, 4, 3},
                         {interleaved, 2, 8, 2},
                         {interleaved, 3, 6, 2},
                         {interleaved, 4, 8, 2}})
    expect_equal(way, whole);
}

TEST(Pipeline, StagesMayBeUneven) {
  const Trained whole = train_whole(tower());
  expect_equal({one_forward_one_backward, 3, 4, 1, {1, 9}}, whole);
  expect_equal({gpipe, 2, 4, 1, {8}}, whole);
  // A stage of an activation alone has no parameters.
  expect_equal({interleaved, 2, 4, 2, {1, 2, 7}}, whole);
}

TEST(Pipeline, Float32StaysCloseToo) {
  const Trained whole = train_whole(tower(at::kFloat), kPipelineSteps, at::kFloat);
  expect_equal({one_forward_one_backward, 3, 4}, whole, at::kFloat, 1e-4);
  expect_equal({interleaved, 2, 4, 2}, whole, at::kFloat, 1e-4);
}

TEST(Pipeline, RecomputedStagesMakeThemToo) {
  const Trained whole = train_whole(tower());
  for (const Way& way : {Way{gpipe, 2, 4, 1, {}, true},
                         {one_forward_one_backward, 3, 4, 1, {}, true},
                         {interleaved, 2, 4, 2, {}, true}})
    expect_equal(way, whole);
}

TEST(Pipeline, GivenStagesServeAsACutModelDoes) {
  const Trained whole = train_whole(tower());
  run_all(2, [&](Communicator& communicator) {
    const torch::nn::Sequential net = tower();
    std::vector<torch::nn::Sequential> parts(2);
    for (const auto& child : net->named_children()) {
      const std::size_t part = std::stoi(child.key()) < 4 ? 0 : 1;
      parts[part]->push_back(child.key(), net->begin()[std::stoi(child.key())]);
    }
    PipelineParallel pipeline({PipelineStage(parts[static_cast<std::size_t>(communicator.rank())])}, squares,
                              communicator, {.micro_batches = 4});
    EXPECT_LT(largest_difference(train_pipeline(pipeline).values, whole.values), 1e-10);
  });
}

/// An embedding whose table the last layer uses again.
struct TiedNet {
  explicit TiedNet(int classes = 7) : embedding(classes, 5), output(at::Tensor()) {
    embedding->to(at::kDouble);
    fill(*embedding, 3);
  }
  torch::nn::Sequential net(bool is_one_tensor) {
    torch::nn::Linear middle(5, 5), other(5, 5);
    middle->to(at::kDouble);
    other->to(at::kDouble);
    fill(*middle, 5);
    fill(*other, 8);
    const at::Tensor table =
        is_one_tensor ? embedding->weight : at::zeros_like(embedding->weight).set_requires_grad(true);
    return torch::nn::Sequential(embedding, middle, torch::nn::Tanh(), other, Tied(table));
  }
  torch::nn::Embedding embedding;
  at::Tensor output;
};

at::Tensor tokens(int step) {
  return at::arange(kPipelineBatch, at::kLong).mul(3 + step % 4).add(step).remainder(7);
}

at::Tensor scores_loss(const at::Tensor& scores, const at::Tensor& next) {
  return at::nll_loss(at::log_softmax(scores, 1), next);
}

Values train_tied(const std::function<void(int)>& step, const std::vector<at::Tensor>& parameters) {
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.3).momentum(0.9));
  for (int i = 0; i < kPipelineSteps; ++i) {
    // Gradients of two passes add up; the second one adds to sums of both stages.
    if (i % 2 == 0) optimizer.zero_grad();
    step(i);
    if (i % 2 == 1) optimizer.step();
  }
  return {};
}

TEST(Pipeline, ATiedWeightGetsTheGradientsOfBothEnds) {
  TiedNet made;
  torch::nn::Sequential whole = made.net(true);
  train_tied([&](int i) { scores_loss(whole->forward(tokens(i)), tokens(i + 1)).backward(); },
             unique_parameters(*whole));
  Values expected;
  copy_values(*whole, expected);
  for (const auto& [ranks, schedule, chunks, is_one_tensor] :
       {std::tuple(2, one_forward_one_backward, 1, true),
        {3, gpipe, 1, true},
        {1, gpipe, 1, true},
        {2, interleaved, 2, false},
        {1, interleaved, 2, false}}) {
    run_all(ranks, [&, ranks = ranks, schedule = schedule, chunks = chunks,
                    is_one_tensor = is_one_tensor](Communicator& communicator) {
      at::set_num_threads(1);
      TiedNet own;
      PipelineParallel pipeline(
          PipelineModel{own.net(is_one_tensor)}, scores_loss, communicator,
          {.schedule = schedule, .micro_batches = 4, .chunks = chunks, .tie = {{"0.weight", "4.weight"}}});
      train_tied([&](int i) { pipeline.step(tokens(i), tokens(i + 1)); }, pipeline.parameters());
      Values part;
      for (const PipelineStage& stage : pipeline.stages()) copy_values(*stage.module, part);
      EXPECT_LT(largest_difference(part, expected), 1e-10) << ranks << " ranks, " << chunks << " chunks";
    });
  }
}

TEST(Pipeline, ReplicasOfEachStageAverageTheirGradients) {
  const Trained whole = train_whole(tower());
  // Ranks 0 and 1 are one pipeline, 2 and 3 another, each with half of the batch.
  run_all(4, [&](Communicator& communicator) {
    at::set_num_threads(1);
    const int replica = communicator.rank() / 2;
    Communicator pipe = communicator.split(replica), data = communicator.split(communicator.rank() % 2);
    torch::nn::Sequential net = tower();
    if (replica == 1) fill(*net, 77);
    PipelineParallel pipeline(PipelineModel{net}, squares, pipe, {.micro_batches = 3, .data = data});
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < kPipelineSteps; ++step) {
      optimizer.zero_grad();
      const auto half = [&](const at::Tensor& all) {
        return all.chunk(2)[static_cast<std::size_t>(replica)];
      };
      pipeline.step(half(batch_of(step)), half(batch_of(1000 + step, at::kDouble, 3)));
      optimizer.step();
      EXPECT_NEAR(pipeline.mean_loss(), whole.losses[static_cast<std::size_t>(step)], 1e-10);
    }
    Values part;
    copy_values(*pipeline.stages()[0].module, part);
    EXPECT_LT(largest_difference(part, whole.values), 1e-10);
  });
}

TEST(Pipeline, DropoutDropsTheSameElementsWhenAStageIsRecomputed) {
  const auto train = [](bool recompute) {
    Values values;
    run_all(1, [&](Communicator& communicator) {
      torch::manual_seed(5);
      torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::Dropout(0.5), torch::nn::Linear(8, 8),
                                torch::nn::Dropout(0.5), torch::nn::Linear(8, 3));
      net->to(at::kDouble);
      fill(*net, 1);
      // All forwards come before the first backward, so random numbers have gone on by then.
      PipelineParallel pipeline(
          PipelineModel{net, {2}}, squares, communicator,
          {.schedule = interleaved, .micro_batches = 4, .chunks = 2, .recompute = recompute});
      values = train_pipeline(pipeline, 3).values;
    });
    return values;
  };
  EXPECT_EQ(largest_difference(train(true), train(false)), 0);
}

TEST(Pipeline, BatchNormalizationSeesMicroBatches) {
  const auto net = [] {
    torch::nn::Sequential made(torch::nn::Linear(6, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 3));
    made->to(at::kDouble);
    fill(*made, 1);
    return made;
  };
  const Trained whole = train_whole(net(), 1);
  for (const int micro_batches : {1, 4}) {
    run_all(2, [&](Communicator& communicator) {
      PipelineParallel pipeline(PipelineModel{net(), {1}}, squares, communicator,
                                {.micro_batches = micro_batches});
      const Trained part = train_pipeline(pipeline, 1);
      const double difference = std::abs(part.losses[0] - whole.losses[0]);
      if (micro_batches == 1) {
        EXPECT_LT(difference, 1e-10);
      } else {
        EXPECT_GT(difference, 1e-4);
        if (!pipeline.is_last()) return;
        const auto buffers = pipeline.stages()[0].module->named_buffers();
        EXPECT_EQ(buffers["1.num_batches_tracked"].item().toLong(), 4);
      }
    });
  }
}

TEST(Pipeline, OutputsInBfloat16TravelAndAreRecomputedAsTheyWere) {
  const auto train = [](int ranks, bool recompute) {
    Values values;
    run_all(ranks, [&](Communicator& communicator) {
      at::set_num_threads(1);
      torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::Linear(8, 8), torch::nn::Tanh(),
                                torch::nn::Linear(8, 3));
      fill(*net, 1);
      const auto loss = [](const at::Tensor& output, const at::Tensor& target) {
        EXPECT_EQ(output.scalar_type(), at::kBFloat16);
        return squares(output.to(at::kFloat), target);
      };
      PipelineParallel pipeline(PipelineModel{net}, loss, communicator,
                                {.micro_batches = 4, .recompute = recompute});
      torch::optim::SGD optimizer(pipeline.parameters(), 0.1);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        {
          const Autocast autocast;
          pipeline.step(batch_of(step, at::kFloat), batch_of(1000 + step, at::kFloat, 3));
        }
        optimizer.step();
      }
      Values part;
      for (const PipelineStage& stage : pipeline.stages()) copy_values(*stage.module, part);
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      values.merge(part);
    });
    return values;
  };
  const Values one = train(1, false);
  EXPECT_EQ(one.size(), 6U);
  EXPECT_EQ(largest_difference(train(2, false), one), 0);
  EXPECT_EQ(largest_difference(train(2, true), one), 0);
}

}  // namespace
}  // namespace kolo::test::pipeline
