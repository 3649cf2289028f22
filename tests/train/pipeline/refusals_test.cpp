// What a pipeline refuses, on all ranks, and how it ends when a stage fails.
#include <gtest/gtest.h>
#include <torch/nn/modules/container/functional.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "kolo/error.hpp"
#include "train/pipeline/training.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::pipeline {
namespace {

using enum PipelineSchedule;

using Adjust = std::function<void(PipelineModel&, PipelineParallelOptions&)>;

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

struct Case {
  Adjust adjust;
  std::string says;
};

/// Tries one after the other on all ranks; `odd`: where the adjustment is made, -1: on all.
void expect_refusals(int ranks, int odd, const std::vector<Case>& cases) {
  run_all(ranks, [&](Communicator& communicator) {
    at::set_num_threads(1);
    for (const Case& one : cases) {
      PipelineModel model{tower()};
      PipelineParallelOptions options{.micro_batches = 4};
      if (odd < 0 || odd == communicator.rank()) one.adjust(model, options);
      expect_in(refusal_of([&] { const PipelineParallel pipeline(model, squares, communicator, options); }),
                one.says);
    }
    PipelineParallel pipeline(PipelineModel{tower()}, squares, communicator, {});
    pipeline.step(batch_of(0), batch_of(1, at::kDouble, 3));
  });
}

TEST(PipelineRefusals, RanksThatDisagreeAreNamed) {
  expect_refusals(
      3, 2,
      {{[](PipelineModel&, auto& options) { options.schedule = gpipe; },
        "rank 2 has the schedule gpipe where rank 0 has the schedule 1f1b"},
       {[](PipelineModel&, auto& options) { options.micro_batches = 8; },
        "rank 2 has 8 micro-batches where rank 0 has 4 micro-batches"},
       {[](PipelineModel& model, auto&) {
          model.borders = {2, 3};
        },
        "rank 2 has borders 2 3"},
       {[](PipelineModel&, auto& options) { options.recompute = true; }, "rank 2 has recompute"},
       {[](PipelineModel&, auto& options) {
          options.tie = {{"0.weight", "9.weight"}};
        },
        "rank 2 has the tie '0.weight', '9.weight'"},
       {[](PipelineModel& model, auto&) { model.layers->push_back(torch::nn::Tanh()); },
        "rank 2 has 11 layers where rank 0 has 10 layers"},
       {[](PipelineModel& model, auto&) { model.layers->to(at::kFloat); }, "rank 2 has '0.weight' Float"}});
}

TEST(PipelineRefusals, WhatCannotBeIsRefusedOnAllRanks) {
  expect_refusals(
      3, -1,
      {{[](PipelineModel&, auto& options) {
          options = {.schedule = interleaved, .micro_batches = 3, .chunks = 4};
        },
        "12 stages are more than the 10 layers"},
       {[](PipelineModel&, auto& options) {
          options = {.schedule = interleaved, .micro_batches = 4, .chunks = 2};
        },
        "4 is no multiple"},
       {[](PipelineModel& model, auto&) { model.borders = {3}; }, "do not make 3 stages"},
       {[](PipelineModel& model, auto&) {
          model.borders = {5, 5};
        },
        "a border of 5 after 5"},
       {[](PipelineModel& model, auto&) {
          model.borders = {4, 10};
        },
        "a border of 10"},
       {[](PipelineModel&, auto& options) { options.chunks = 2; }, "want the schedule interleaved"},
       {[](PipelineModel&, auto& options) { options.micro_batches = 0; }, "0 micro-batches"},
       {[](PipelineModel&, auto& options) {
          options.tie = {{"0.weight", "7.attic"}};
        },
        "'7.attic', which is no parameter of the last stage"},
       {[](PipelineModel&, auto& options) {
          options.tie = {{"0.weight", "9.weight"}};
        },
        "rank 2 has 'tied parameter' Double [3, 8] where rank 0 has"},
       {[](PipelineModel& model, auto&) {
          torch::nn::Linear shared(5, 5);
          model.layers = torch::nn::Sequential(shared, torch::nn::Tanh(), shared);
        },
        "'0.weight' and '2.weight' are one parameter, in stages 0 and 2"}});
}

TEST(PipelineRefusals, AMissingStageOrLossIsRefusedOnAllRanks) {
  run_all(2, [](Communicator& communicator) {
    std::vector<PipelineStage> stages;
    if (communicator.rank() == 0) stages.emplace_back(torch::nn::Linear(2, 2));
    expect_in(refusal_of([&] { const PipelineParallel pipeline(stages, squares, communicator, {}); }),
              "rank 1: there are 0 stages where each rank has 1");
    const std::vector<PipelineStage> one{torch::nn::Linear(2, 2)};
    expect_in(refusal_of([&] { const PipelineParallel pipeline(one, nullptr, communicator); }),
              "rank 1: the last stage has no loss");
    const std::vector<PipelineStage> none{std::shared_ptr<torch::nn::LinearImpl>()};
    expect_in(refusal_of([&] { const PipelineParallel pipeline(none, squares, communicator); }),
              "rank 0: a stage has no module");
  });
}

TEST(PipelineRefusals, ReplicasThatDifferAreRefusedOnAllRanksOfTheirPipelines) {
  const std::string error = error_of_all(4, [](Communicator& communicator) {
    const int replica = communicator.rank() / 2;
    Communicator pipe = communicator.split(replica), data = communicator.split(communicator.rank() % 2);
    torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2 + replica));
    const PipelineParallel pipeline(PipelineModel{net}, squares, pipe, {.data = data});
  });
  expect_in(error, "rank 1: replicas of a stage: rank 1 has '1.weight' Float [3, 2]");
}

TEST(PipelineRefusals, ABatchThatCannotBeCutIsRefusedAndTheNextOneServes) {
  run_all(3, [](Communicator& communicator) {
    PipelineParallel pipeline(PipelineModel{tower()}, squares, communicator, {.micro_batches = 4});
    const at::Tensor input = batch_of(0), target = batch_of(1, at::kDouble, 3);
    for (int i = 0; i < 2; ++i) {
      pipeline.step(input, target);
      expect_in(refusal_of([&] { pipeline.step(input.slice(0, 0, 6), target); }),
                "rank 0: the input of 6 samples cannot be cut into 4 equal micro-batches");
      expect_in(refusal_of([&] { pipeline.step(input, {}); }), "rank 2: the stage needs the target");
      expect_in(refusal_of([&] { pipeline.step({}, target); }), "rank 0: the stage needs the input");
      expect_in(refusal_of([&] {
                  if (communicator.rank() == 1) {
                    pipeline.forward({});
                  } else {
                    pipeline.step(input, target);
                  }
                }),
                "rank 1 calls forward() where rank 0 calls step()");
    }
    pipeline.step(input, target);
  });
}

TEST(PipelineRefusals, AStageThatThrowsEndsTheStepOnAllRanks) {
  const auto spill = [](bool is_standard) {
    if (is_standard) throw std::runtime_error("spilled coffee");
    throw 42;
  };
  for (const auto& [in_backward, is_standard] :
       {std::pair(false, true), std::pair(true, true), std::pair(false, false), std::pair(true, false)}) {
    const auto errors = run_ranks(3, [&](Communicator& communicator) {
      int calls = 0;
      torch::nn::Linear layer(4, 4);
      const PipelineStage stage(layer.ptr(), [&](const at::Tensor& x) {
        const at::Tensor y = layer(x);
        if (communicator.rank() != 1 || ++calls < 6) return y;
        if (!in_backward) spill(is_standard);
        y.register_hook([&](const at::Tensor&) { spill(is_standard); });
        return y;
      });
      PipelineParallel pipeline({stage}, squares, communicator, {.micro_batches = 4});
      for (int i = 0; i < 3; ++i) pipeline.step(numbers(8, 4, i), numbers(8, 4, 9));
    });
    if (is_standard) {
      expect_in(message(errors[1]), "spilled coffee");
    } else {
      EXPECT_THROW(std::rethrow_exception(errors[1]), int);
    }
    for (const std::size_t rank : {0U, 2U}) {
      expect_in(message(errors[rank]), "rank 1 aborted");
      expect_in(message(errors[rank]), is_standard ? "spilled coffee" : "no std::exception");
    }
  }
}

TEST(PipelineRefusals, AnOutputThatChangesItsShapeByItselfIsAnError) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    int calls = 0;
    torch::nn::Linear layer(4, 4);
    const PipelineStage stage(layer.ptr(), [&](const at::Tensor& x) {
      const at::Tensor y = layer(x);
      return ++calls > 3 && communicator.rank() == 0 ? at::cat({y, y}) : y;
    });
    PipelineParallel pipeline({stage}, squares, communicator, {.micro_batches = 2});
    for (int i = 0; i < 3; ++i) pipeline.step(numbers(8, 4, i), numbers(8, 4, 9));
  });
  expect_in(message(errors[0]),
            "stage 0 computes Float [8, 4] with a gradient where it has computed Float [4, 4]");
  expect_in(message(errors[1]), "rank 0 aborted");
}

}  // namespace
}  // namespace kolo::test::pipeline
