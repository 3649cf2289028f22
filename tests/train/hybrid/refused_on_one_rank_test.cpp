// What is refused on one rank alone is an error on all ranks at once, whatever is made.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::hybrid {
namespace {

/// One that is served, unless it is odd.
struct OddImpl : torch::nn::Module {
  explicit OddImpl(bool is_odd) : linear(4, 4) {
    register_module("linear", linear);
    if (is_odd) register_parameter("odd", at::zeros({2}, at::kComplexHalf));
  }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }

  torch::nn::Linear linear;
};
TORCH_MODULE(Odd);

/// Rank 1 of 3 is the odd one. All ranks throw what says `said` and names it, and go on together.
void expect_refusal_of_one(const std::string& said, const std::function<void(Communicator&, bool)>& make) {
  const auto errors = run_ranks(
      3,
      [&](Communicator& communicator) {
        std::string text = "nothing was refused";
        try {
          make(communicator, communicator.rank() == 1);
        } catch (const InvalidArgumentError& error) {
          text = error.what();
        }
        EXPECT_NE(text.find("rank 1: "), std::string::npos) << text;
        EXPECT_NE(text.find(said), std::string::npos) << text;
        communicator.barrier();
      },
      [](Options& options, int) { options.timeout = std::chrono::seconds(20); });
  for (const auto& error : errors) EXPECT_EQ(message(error), "") << said;
}

TEST(RefusedOnOneRank, ModelsAndOptionsOfDistributedDataParallel) {
  const auto expect = [](const std::string& said,
                         const std::function<void(DistributedDataParallelOptions&)>& change) {
    expect_refusal_of_one(said, [&](Communicator& communicator, bool is_odd) {
      DistributedDataParallelOptions options;
      if (is_odd) change(options);
      const DistributedDataParallel model(Odd(false), communicator, options);
    });
  };
  expect_refusal_of_one("parameter 'odd': ", [](Communicator& communicator, bool is_odd) {
    const DistributedDataParallel model(Odd(is_odd), communicator);
  });
  expect_refusal_of_one("there is no model", [](Communicator& communicator, bool is_odd) {
    const DistributedDataParallel model(is_odd ? nullptr : Odd(false).ptr(), communicator);
  });
  expect("the options static_graph and find_unused_parameters", [](auto& options) {
    options.static_graph = true;
    options.find_unused_parameters = true;
  });
  expect("`ignored` names 'what'", [](auto& options) { options.ignored = {"what"}; });
  expect("sparse_parameters names 'what'", [](auto& options) { options.sparse_parameters = {"what"}; });
  expect_refusal_of_one("no optimizer today", [](Communicator& communicator, bool is_odd) {
    DistributedDataParallelOptions options;
    options.overlap_forward = [is_odd](const std::vector<at::Tensor>& parameters) {
      if (is_odd) throw std::runtime_error("no optimizer today");
      return std::make_unique<torch::optim::SGD>(parameters, 0.1);
    };
    const DistributedDataParallel model(Odd(false), communicator, options);
  });
}

TEST(RefusedOnOneRank, OtherWrappersAndAveragers) {
  const std::string said = "parameter 'odd': ";
  expect_refusal_of_one(said, [](Communicator& communicator, bool is_odd) {
    const ShardedDataParallel model(Odd(is_odd), communicator, {});
  });
  expect_refusal_of_one("another object averages the gradient of 'linear.weight'",
                        [](Communicator& communicator, bool is_odd) {
                          const Odd net(false);
                          Communicator alone = communicator.split(communicator.rank());
                          std::optional<DistributedDataParallel<OddImpl>> before;
                          if (is_odd) before.emplace(net, alone);
                          const ShardedDataParallel model(net, communicator, {});
                        });
  expect_refusal_of_one("there is no model", [](Communicator& communicator, bool is_odd) {
    const ShardedDataParallel model(is_odd ? nullptr : Odd(false).ptr(), communicator, {});
  });
  expect_refusal_of_one(said, [](Communicator& communicator, bool is_odd) {
    const ModelAverager averager(*Odd(is_odd), communicator, {});
  });
  expect_refusal_of_one(said, [](Communicator& communicator, bool is_odd) {
    const DelayedAverages averages(*Odd(is_odd), communicator);
  });
}

TEST(RefusedOnOneRank, Pipelines) {
  expect_refusal_of_one("a stage has no module", [](Communicator& communicator, bool is_odd) {
    const PipelineStage stage(is_odd ? nullptr : Odd(false).ptr());
    const PipelineParallel pipeline({stage}, squares, communicator, {.micro_batches = 1});
  });
}

}  // namespace
}  // namespace kolo::test::hybrid
