// What a pipeline holds, evaluates, and makes of shapes that change.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kolo/train/precision.hpp"
#include "train/pipeline/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::pipeline {
namespace {

using enum PipelineSchedule;

TEST(PipelineBehaviour, StagesHoldAsManyMicroBatchesAsTheScheduleSays) {
  constexpr int kRanks = 4, kMicroBatches = 8;
  run_all(kRanks, [&](Communicator& communicator) {
    at::set_num_threads(1);
    const int behind = kRanks - 1 - communicator.rank();
    const auto most_held = [&](PipelineSchedule schedule, int chunks) {
      PipelineParallel pipeline(PipelineModel{tower()}, squares, communicator,
                                {.schedule = schedule, .micro_batches = kMicroBatches, .chunks = chunks});
      pipeline.step(batch_of(0), batch_of(1, at::kDouble, 3));
      EXPECT_GT(pipeline.last_step().computing.count(), 0);
      EXPECT_GE(pipeline.last_step().bubble(), 0);
      EXPECT_LE(pipeline.last_step().bubble(), 1);
      EXPECT_EQ(pipeline.last_step().most_held, pipeline.statistics().most_held);
      return pipeline.statistics().most_held;
    };
    EXPECT_EQ(most_held(one_forward_one_backward, 1), behind + 1);
    EXPECT_EQ(most_held(gpipe, 1), kMicroBatches);
    EXPECT_EQ(most_held(interleaved, 2), 2 * behind + kRanks + 1);
  });
}

TEST(PipelineBehaviour, EvaluationGivesTheOutputOfTheWholeBatch) {
  const at::Tensor expected = tower()->forward(batch_of(0));
  for (const auto& [ranks, chunks] : {std::pair(2, 1), {2, 3}, {3, 1}}) {
    run_all(ranks, [&, chunks = chunks](Communicator& communicator) {
      PipelineParallel pipeline(PipelineModel{tower()}, squares, communicator,
                                {.schedule = chunks > 1 ? interleaved : one_forward_one_backward,
                                 .micro_batches = 4,
                                 .chunks = chunks});
      // Whole micro-batches, lengths that differ, fewer samples than micro-batches, one.
      for (const std::int64_t samples : {24, 24, 23, 22, 5, 3, 3, 1, 24}) {
        const at::Tensor output = pipeline.forward(batch_of(0).slice(0, 0, samples));
        EXPECT_EQ(output.defined(), pipeline.is_last());
        if (!pipeline.is_last()) continue;
        EXPECT_FALSE(output.requires_grad());
        ASSERT_EQ(output.size(0), samples);
        EXPECT_LT((output - expected.slice(0, 0, samples)).abs().max().item().toDouble(), 1e-12);
      }
      for (const at::Tensor& parameter : pipeline.parameters()) EXPECT_FALSE(parameter.grad().defined());
    });
  }
}

/// Loss and gradients of a pass.
struct Pass {
  double loss;
  Values gradients;
};

Pass whole_pass(torch::nn::Sequential& net, const at::Tensor& input, const at::Tensor& target) {
  net->zero_grad();
  const at::Tensor loss = squares(net->forward(input), target);
  loss.backward();
  Pass result{loss.item().toDouble(), {}};
  for (const auto& parameter : net->named_parameters()) {
    if (parameter.value().grad().defined())
      result.gradients[parameter.key()] = parameter.value().grad().clone();
  }
  return result;
}

void expect_pass(PipelineParallel& pipeline, const at::Tensor& input, const at::Tensor& target,
                 const Pass& expected) {
  for (const at::Tensor& parameter : pipeline.parameters()) parameter.mutable_grad() = at::Tensor();
  pipeline.step(input, target);
  EXPECT_NEAR(pipeline.mean_loss(), expected.loss, 1e-10);
  for (const PipelineStage& stage : pipeline.stages()) {
    for (const auto& parameter : stage.module->named_parameters()) {
      const auto found = expected.gradients.find(parameter.key());
      const at::Tensor& gradient = parameter.value().grad();
      ASSERT_EQ(gradient.defined(), found != expected.gradients.end()) << parameter.key();
      if (!gradient.defined()) continue;
      EXPECT_LT((gradient - found->second).abs().max().item().toDouble(), 1e-10);
    }
  }
}

TEST(PipelineBehaviour, ShapesMayChangeFromStepToStep) {
  torch::nn::Sequential net = tower();
  std::vector<Pass> expected;
  const auto input_of = [](std::int64_t samples, bool has_rows) {
    const at::Tensor input = batch_of(3).slice(0, 0, samples);
    return has_rows ? at::stack({input, input + 1}, 1) : input;
  };
  const auto target_of = [](std::int64_t samples, bool has_rows) {
    const at::Tensor target = batch_of(4, at::kDouble, 3).slice(0, 0, samples);
    return has_rows ? at::stack({target, target - 1}, 1) : target;
  };
  const std::vector<std::pair<std::int64_t, bool>> kinds{{24, false}, {24, false}, {8, false},
                                                         {8, true},   {24, true},  {24, false}};
  for (const auto& [samples, has_rows] : kinds)
    expected.push_back(whole_pass(net, input_of(samples, has_rows), target_of(samples, has_rows)));
  for (const int chunks : {1, 2}) {
    run_all(2, [&](Communicator& communicator) {
      at::set_num_threads(1);
      PipelineParallel pipeline(PipelineModel{tower()}, squares, communicator,
                                {.schedule = interleaved, .micro_batches = 4, .chunks = chunks});
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        const auto [samples, has_rows] = kinds[i];
        expect_pass(pipeline, input_of(samples, has_rows), target_of(samples, has_rows), expected[i]);
        if (i == 1) pipeline.forward(input_of(7, false));  // evaluation has shapes of its own
      }
    });
  }
}

TEST(PipelineBehaviour, FrozenLayersGetNoGradientsAndMayThaw) {
  torch::nn::Sequential net = tower();
  const auto freeze = [](torch::nn::Module& module, const std::string& prefix, bool is_frozen) {
    for (const auto& parameter : module.named_parameters()) {
      if (parameter.key().starts_with(prefix)) parameter.value().set_requires_grad(!is_frozen);
    }
  };
  // The first stage of three, so that it gets no gradient from the second.
  const std::vector<std::string> first{"0.", "2.", "3."};
  std::vector<Pass> expected;
  for (const bool is_frozen : {true, false, true}) {
    for (const std::string& prefix : first) freeze(*net, prefix, is_frozen);
    for (auto& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
    expected.push_back(whole_pass(net, batch_of(1), batch_of(2, at::kDouble, 3)));
  }
  run_all(3, [&](Communicator& communicator) {
    at::set_num_threads(1);
    PipelineParallel pipeline(PipelineModel{tower(), {4, 7}}, squares, communicator, {.micro_batches = 4});
    for (int i = 0; i < 3; ++i) {
      for (const std::string& prefix : first) freeze(*pipeline.stages()[0].module, prefix, i != 1);
      expect_pass(pipeline, batch_of(1), batch_of(2, at::kDouble, 3), expected[static_cast<std::size_t>(i)]);
    }
  });
}

TEST(PipelineBehaviour, TypesMayChangeFromStepToStep) {
  run_all(3, [](Communicator& communicator) {
    at::set_num_threads(1);
    PipelineParallel pipeline(PipelineModel{tower(at::kFloat)}, squares, communicator, {.micro_batches = 4});
    torch::nn::Sequential net = tower(at::kFloat);
    at::ScalarType type = at::kFloat;
    const auto expect_loss = [&](bool has_autocast, double tolerance) {
      const Autocast autocast(has_autocast);
      const at::Tensor input = batch_of(1, type), target = batch_of(2, type, 3);
      const at::Tensor output = net->forward(input), given = pipeline.forward(input);
      if (pipeline.is_last()) {
        EXPECT_EQ(given.scalar_type(), output.scalar_type());
        EXPECT_TRUE(at::allclose(given.to(at::kDouble), output.to(at::kDouble), tolerance, tolerance));
      }
      pipeline.step(input, target);
      EXPECT_NEAR(pipeline.mean_loss(), squares(output, target).item().toDouble(), tolerance);
    };
    for (const bool has_autocast : {true, false, true, true})
      expect_loss(has_autocast, has_autocast ? 1e-2 : 1e-6);
    type = at::kDouble;
    net->to(type);
    for (const PipelineStage& stage : pipeline.stages()) {
      stage.module->zero_grad();
      stage.module->to(type);
    }
    expect_loss(false, 1e-10);
  });
}

TEST(PipelineBehaviour, LongOutputsTravelToo) {
  // 1.5 MiB a micro-batch, which the receiver asks for.
  run_all(2, [](Communicator& communicator) {
    at::set_num_threads(1);
    torch::nn::Sequential net(torch::nn::Linear(4, 65536), torch::nn::Linear(65536, 2));
    fill(*net, 1);
    PipelineParallel pipeline(PipelineModel{net}, squares, communicator, {.micro_batches = 4});
    const at::Tensor input = numbers(24, 4, 1), target = numbers(24, 2, 2);
    const at::Tensor loss = squares(net->forward(input), target);
    for (int i = 0; i < 2; ++i) {
      pipeline.step(input, target);
      EXPECT_NEAR(pipeline.mean_loss(), loss.item().toDouble(), 1e-3 * loss.item().toDouble());
    }
  });
}

}  // namespace
}  // namespace kolo::test::pipeline
