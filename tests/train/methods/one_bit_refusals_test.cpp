// What OneBitAdam refuses, on all ranks.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/serialize.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "methods/one_bit_adam.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::optim {
namespace {

using methods::OneBitAdam;
using methods::OneBitAdamOptions;
using torch::optim::AdamOptions;
using torch::optim::OptimizerParamGroup;

struct Settings {
  AdamOptions adam = {};
  OneBitAdamOptions options = {.freeze_after_steps = 4};
  /// Of the model's parameters; empty: all in one group.
  std::function<std::vector<OptimizerParamGroup>(std::vector<at::Tensor>)> groups = {};
};

/// What two ranks say of which rank 1 has these settings.
std::string refusal(const Settings& of_rank_1) {
  return error_of_all(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator);
    const Settings settings = communicator.rank() == 1 ? of_rank_1 : Settings{};
    if (settings.groups) {
      OneBitAdam(model, settings.groups(model.parameters()), settings.adam, settings.options);
    } else {
      OneBitAdam(model, settings.adam, settings.options);
    }
  });
}

TEST(OneBitAdamRefuses, OptionsThatAreOutOfTheirRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string says = "OneBitAdam: rank 1: ";
  EXPECT_EQ(refusal({.options = {}}).find(says + "freeze_after_steps is 0"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions(-1)}).find(says + "lr is -1"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions(nan)}).find(says + "lr is nan"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions().eps(-1)}).find(says + "eps is -1"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions().weight_decay(-1)}).find(says + "weight_decay is -1"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions().betas({1, 0.9})}).find(says + "the first beta is 1"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions().betas({0.9, -1})}).find(says + "the second beta is -1"), 0u);
  EXPECT_EQ(refusal({.adam = AdamOptions().amsgrad(true)}).find(says + "amsgrad"), 0u);
}

TEST(OneBitAdamRefuses, HookWithWhichRanksDiffer) {
  const std::string text = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.hook = make_gradient_hook("post_local_sgd:start_after_steps=1");
    DistributedDataParallel model(Chain(1), communicator, options);
    OneBitAdam(model, AdamOptions(), {.freeze_after_steps = 4});
  });
  EXPECT_NE(text.find("a hook with which ranks' parameters differ"), std::string::npos) << text;
}

TEST(OneBitAdamRefuses, OptionsThatDiffer) {
  EXPECT_EQ(
      refusal({.options = {.freeze_after_steps = 5}}).find("OneBitAdam: rank 1 has freeze_after_steps 5"),
      0u);
  EXPECT_EQ(refusal({.adam = AdamOptions(0.5)}).find("OneBitAdam: rank 1 has parameter group 0 with lr 0.5"),
            0u);
  const auto reversed = [](std::vector<at::Tensor> all) {
    std::ranges::reverse(all);
    return std::vector<OptimizerParamGroup>{OptimizerParamGroup(all)};
  };
  EXPECT_EQ(refusal({.groups = reversed}),
            "OneBitAdam: rank 1 has third.bias in group 0 where rank 0 has first.weight in group 0 [K701]");
}

TEST(OneBitAdamRefuses, GroupsThatAreNotTheModel) {
  const std::string says = "OneBitAdam: rank 1: ";
  const auto said_of = [](const std::function<void(std::vector<at::Tensor>&)>& change) {
    return refusal({.groups = [&](std::vector<at::Tensor> all) {
      std::vector<at::Tensor> changed = all;
      change(changed);
      return std::vector<OptimizerParamGroup>{OptimizerParamGroup(changed)};
    }});
  };
  EXPECT_EQ(said_of([](auto& all) {
              all.pop_back();
            }).find(says + "parameter 'third.bias' is in no parameter group"),
            0u);
  EXPECT_EQ(said_of([](auto& all) {
              all.push_back(all[0]);
            }).find(says + "parameter 'first.weight' is in parameter groups twice"),
            0u);
  EXPECT_EQ(said_of([](auto& all) {
              all.push_back(at::zeros({2, 3}).set_requires_grad(true));
            }),
            says + "a parameter of shape [2, 3] in a group is none whose gradient the model averages");
}

struct TableImpl : torch::nn::Module {
  TableImpl() : table(torch::nn::EmbeddingOptions(5, 2).sparse(true)) { register_module("table", table); }
  torch::nn::Embedding table;
};
TORCH_MODULE(Table);

TEST(OneBitAdamRefuses, ParametersThatItCannotSend) {
  const auto refused = [](const auto& make) {
    return error_of_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(make(), communicator);
      OneBitAdam(model, AdamOptions(), {.freeze_after_steps = 4});
    });
  };
  EXPECT_EQ(refused([] { return Table(); }),
            "OneBitAdam: rank 0: parameter 'table.weight' has sparse gradients [K712]");
  EXPECT_EQ(refused([] {
              Chain chain(1);
              chain->to(at::kDouble);
              return chain;
            }),
            "OneBitAdam: rank 0: parameter 'first.weight' is of type Double, not Float");
}

TEST(OneBitAdamRefuses, ModelsWhoseOptionsBringAnOptimizerOrAMomentum) {
  const auto refused = [](const DistributedDataParallelOptions& options) {
    return error_of_all(1, [&](Communicator& communicator) {
      DistributedDataParallel model(Chain(1), communicator, options);
      OneBitAdam(model, AdamOptions(), {.freeze_after_steps = 4});
    });
  };
  DistributedDataParallelOptions options;
  options.overlap_forward = [](const auto& parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  };
  EXPECT_EQ(refused(options).find("overlap_forward has an optimizer for each bucket"), 0u);
  options = {};
  options.hook = make_gradient_hook("top_k");
  EXPECT_NE(refused(options).find("momentum"), std::string::npos);
}

at::Tensor loss_of(DistributedDataParallel<ChainImpl>& model, int rank) {
  return squares(model(numbers(6, 8, rank)), numbers(6, 4, 1));
}

TEST(OneBitAdamRefuses, StepsOfTheWarmUpWithoutAverages) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator);
    OneBitAdam optimizer(model, AdamOptions(), {.freeze_after_steps = 2});
    const auto before = bits(model.parameters());
    {
      const auto guard = model.no_sync();
      loss_of(model, communicator.rank()).backward();
      EXPECT_THROW(optimizer.step(), InvalidArgumentError);
    }
    EXPECT_EQ(bits(model.parameters()), before);
    loss_of(model, communicator.rank()).backward();  // the sum of both
    optimizer.step();
    EXPECT_THROW(optimizer.step(), InvalidArgumentError);
  });
}

/// What ranks 0 and 1 say where rank 1 does something before a step after the freeze.
std::vector<std::string> said_where(const std::function<void(OneBitAdam&)>& spoil) {
  const auto errors = run_ranks(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator);
    OneBitAdam optimizer(model, AdamOptions(), {.freeze_after_steps = 1});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(model, communicator.rank()).backward();
      if (step == 2 && communicator.rank() == 1) spoil(optimizer);
      optimizer.step();
    }
  });
  return {message(errors[0]), message(errors[1])};
}

TEST(OneBitAdamRefuses, WhatOneRankDoesAfterTheFreeze) {
  const auto sparse = said_where([](OneBitAdam& optimizer) {
    at::Tensor& gradient = optimizer.param_groups()[0].params()[0].mutable_grad();
    gradient = gradient.to_sparse();
  });
  const auto added = said_where([](OneBitAdam& optimizer) {
    optimizer.add_param_group(OptimizerParamGroup({at::zeros({2}).set_requires_grad(true)}));
  });
  EXPECT_EQ(sparse[1], "OneBitAdam takes no sparse gradients [K712]");
  EXPECT_EQ(added[1].find("parameters were added to"), 0u);
  for (const auto& said : {sparse, added})
    EXPECT_NE(said[0].find("rank 1 aborted: " + said[1]), std::string::npos) << said[0];
}

TEST(OneBitAdamRefuses, ToJoinAfterTheFreeze) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator);
    OneBitAdam optimizer(model, AdamOptions(), {.freeze_after_steps = 1});
    loss_of(model, communicator.rank()).backward();
    optimizer.step();
    auto join = model.join(JoinMode::divide_by_active);
    for (int step = 0; step < 1 + 2 * communicator.rank(); ++step) {
      join.step(6);
      loss_of(model, communicator.rank()).backward();
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); });
  });
  EXPECT_NE(said.find("join(): step() was called twice without a backward() that averages"),
            std::string::npos)
      << said;
}

TEST(OneBitAdamRefuses, MomentsOfOtherShapes) {
  run_all(1, [](Communicator& communicator) {
    DistributedDataParallel narrow(Chain(1), communicator), wide(Chain(1, 24), communicator);
    OneBitAdam from(narrow, AdamOptions(), {.freeze_after_steps = 4});
    OneBitAdam to(wide, AdamOptions(), {.freeze_after_steps = 4});
    loss_of(narrow, 0).backward();
    from.step();
    std::stringstream file;
    torch::save(from, file);
    EXPECT_THROW(torch::load(to, file), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::optim
