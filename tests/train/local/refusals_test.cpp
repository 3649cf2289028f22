// What cannot be right is an error on all ranks, before training begins, that names the odd rank.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include <cmath>
#include <functional>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/local.hpp"
#include "train/local/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::local {
namespace {

using Body = std::function<void(Communicator&)>;

/// All ranks throw an error with this text, and can go on with the communicator.
void expect_refusal(Communicator& communicator, const std::string& said, const Body& body) {
  try {
    body(communicator);
    ADD_FAILURE() << "rank " << communicator.rank() << " threw nothing, not '" << said << '\'';
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos)
        << '\'' << error.what() << "' without '" << said << '\'';
  }
}

/// The averager of rank 2 has these options; the others' are as they should be.
Body with_odd_options(const ModelAveragerOptions& options) {
  return [options](Communicator& communicator) {
    Chain chain(1);
    ModelAverager(*chain, communicator, communicator.rank() == 2 ? options : ModelAveragerOptions{});
  };
}
ModelAveragerOptions with_outer(OuterOptimizerOptions outer) {
  return {.outer = outer};
}

TEST(LocalRefusals, OptionsOutOfTheirRangeNameTheirRank) {
  run_all(4, [](Communicator& communicator) {
    expect_refusal(communicator, "ModelAverager: rank 2: a period of 0 steps: it is 1 or more",
                   with_odd_options({.period = 0}));
    expect_refusal(communicator, "rank 2: an outer learning_rate of 0 is not above 0 and finite",
                   with_odd_options(with_outer({.learning_rate = 0})));
    expect_refusal(communicator, "rank 2: an outer momentum of 1 is not from 0 to below 1",
                   with_odd_options(with_outer({.momentum = 1})));
    expect_refusal(communicator, "rank 2: an outer momentum of nan",
                   with_odd_options(with_outer({.momentum = std::nan("")})));
  });
}

TEST(LocalRefusals, PlansThatDifferNameTheOddRank) {
  run_all(4, [](Communicator& communicator) {
    expect_refusal(communicator,
                   "rank 2 has the options period 8, start_after_steps 0, no outer optimizer where "
                   "rank 0 has the options period 16, start_after_steps 0, no outer optimizer",
                   with_odd_options({.period = 8}));
    expect_refusal(communicator, "rank 2 has the options period 16, start_after_steps 5,",
                   with_odd_options({.start_after_steps = 5}));
    expect_refusal(communicator, "rank 2 has the options period 16, start_after_steps 0, outer",
                   with_odd_options(with_outer({.learning_rate = 0.7})));
  });
}

TEST(LocalRefusals, ModelsThatDifferNameTheOddRankAndItsTensor) {
  run_all(4, [](Communicator& communicator) {
    Chain chain(1, communicator.rank() == 2 ? 24 : 16);
    const std::string said =
        "rank 2 has 'first.weight' Float [24, 8] where rank 0 has 'first.weight' Float [16, 8]";
    expect_refusal(communicator, said, [&](Communicator& all) { ModelAverager(*chain, all); });
    expect_refusal(communicator, said, [&](Communicator& all) { DelayedAverages(*chain, all); });
    expect_refusal(communicator, said, [&](Communicator& all) { AveragedModel(*chain, all); });
    expect_refusal(communicator, "rank 1 has 'third.bias' Float [4], frozen", [](Communicator& all) {
      Chain equal(1);
      equal->third->bias.set_requires_grad(all.rank() != 1);
      ModelAverager(*equal, all);
    });
  });
}

TEST(LocalRefusals, ModelsThatCannotBeServedNameTheirRank) {
  run_all(4, [](Communicator& communicator) {
    expect_refusal(communicator, "DelayedAverages: rank 0: 'weight' has sparse gradients",
                   [](Communicator& all) {
                     torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 4).sparse(true));
                     DelayedAverages(*table, all);
                   });
    expect_refusal(communicator, "ModelAverager: rank 3: the model has no parameter that wants a gradient",
                   [](Communicator& all) {
                     Chain chain(1);
                     for (at::Tensor& parameter : chain->parameters())
                       parameter.set_requires_grad(all.rank() != 3);
                     ModelAverager(*chain, all);
                   });
  });
}

/// What this rank does to the model in training ends it on all ranks.
void expect_end(const std::string& said, const Body& body) {
  for (const auto& error : run_ranks(3, body))
    EXPECT_NE(message(error).find(said), std::string::npos)
        << '\'' << message(error) << "' without '" << said << '\'';
}

TEST(LocalRefusals, ChangesOfTheModelReachAllRanks) {
  expect_end("'first.weight' is Double [16, 8] and was Float [16, 8] at first",
             [](Communicator& communicator) {
               Chain chain(1);
               ModelAverager averager(*chain, communicator, {.period = 1});
               if (communicator.rank() == 1) chain->to(at::kDouble);
               averager.step();
             });
  expect_end("parameter 'third.bias' was frozen at first and is not now", [](Communicator& communicator) {
    Chain chain(1);
    chain->third->bias.set_requires_grad(false);
    ModelAverager averager(*chain, communicator, {.period = 1});
    if (communicator.rank() == 0) chain->third->bias.set_requires_grad(true);
    averager.step();
    averager.step();
  });
}

}  // namespace
}  // namespace kolo::test::local
