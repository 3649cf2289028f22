// Parameters without gradients, models that differ, ranks that fail: clear errors, never a hang.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <memory>

#include "kolo/train/hooks.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

/// `idle` takes part only where the caller says so.
struct BranchingImpl : torch::nn::Module {
  BranchingImpl() : base(8, 4), idle(8, 4) {
    register_module("base", base);
    register_module("idle", idle);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x, bool use_idle) { return use_idle ? base(x) + idle(x) : base(x); }

  torch::nn::Linear base, idle;
};
TORCH_MODULE(Branching);

class Unused : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};
using Failing = Unused;

TEST_F(Unused, GradientsThatNobodyComputesStayUntouched) {
  run_all(3, [](Communicator& communicator) {
    DistributedDataParallel model(Branching(), communicator, finding_unused());
    for (int step = 0; step < 2; ++step) model(numbers(6, 8, communicator.rank()), false).sum().backward();
    EXPECT_TRUE(same_everywhere(communicator, bits({model->base->weight.grad()})));
    EXPECT_FALSE(model->idle->weight.grad().defined());

    // Each rank keeps its own: nothing is averaged.
    model->idle->weight.mutable_grad() = at::full_like(model->idle->weight, communicator.rank() + 0.1);
    model(numbers(6, 8, communicator.rank()), false).sum().backward();
    EXPECT_TRUE(
        model->idle->weight.grad().eq(static_cast<float>(communicator.rank() + 0.1)).all().item().toBool());
    // Nor is it looked at where ranks have to answer alike.
    model->idle->weight.mutable_grad().fill_(1 / static_cast<double>(communicator.rank()));
    model(numbers(6, 8, communicator.rank()), false).sum().backward();
    EXPECT_TRUE(same_everywhere(communicator, {model.averages_are_finite()}));
  });
}

TEST_F(Unused, OneRankUsesWhatOthersDoNot) {
  run_all(3, [](Communicator& communicator) {
    DistributedDataParallel model(Branching(), communicator, finding_unused());
    // The one that uses it changes from step to step; the last step uses it everywhere.
    for (int step = 0; step < 4; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      const at::Tensor x = numbers(6, 8, communicator.rank());
      model(x, step == 3 || step == communicator.rank()).sum().backward();
      at::Tensor expected = at::zeros({8});
      for (int rank = 0; rank < 3; ++rank) {
        if (step == 3 || step == rank) expected += numbers(6, 8, rank).sum(0) / 3;
      }
      ASSERT_TRUE(model->idle->weight.grad().defined());
      EXPECT_TRUE(at::allclose(model->idle->weight.grad()[0], expected, 1e-4, 1e-6)) << "step " << step;
    }
  });
}

TEST_F(Unused, WhatNoSyncUsedCounts) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Branching(), communicator, finding_unused());
    const at::Tensor x = at::ones({1, 8});
    {
      const auto guard = model.no_sync();
      model(x, communicator.rank() == 1).sum().backward();
    }
    model(x, false).sum().backward();
    EXPECT_TRUE(model->idle->weight.grad().eq(0.5).all().item().toBool());
  });
}

TEST_F(Unused, IsAnErrorThatNamesTheParameterWithoutTheOption) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    DistributedDataParallel model(Branching(), communicator, small_buckets());
    EXPECT_THROW(model(numbers(6, 8, 1), false).sum().backward(), InvalidArgumentError);
    // And again: the ranks' gradients no longer belong together.
    model(numbers(6, 8, 1), true);
  });
  for (const auto& error : errors) {
    EXPECT_NE(message(error).find("'idle.weight', 'idle.bias'"), std::string::npos) << message(error);
    EXPECT_NE(message(error).find("find_unused_parameters"), std::string::npos) << message(error);
  }
}

TEST_F(Failing, ALossThatReachesNoParameterIsAnErrorThatNamesTheStep) {
  auto forward_overlap = small_buckets();
  forward_overlap.overlap_forward = [](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  };
  for (const int kind : {0, 1, 2, 3}) {
    const std::string said = error_of_all(3, [&](Communicator& communicator) {
      auto options = kind == 1 ? finding_unused() : kind == 3 ? forward_overlap : small_buckets();
      if (kind == 2) options.hook = make_gradient_hook("float16");
      DistributedDataParallel model(Chain(0), communicator, options);
      for (int step = 1; step < 6; ++step) {
        const at::Tensor output = model(numbers(6, 8, step));
        const bool misses = step == 2 && communicator.rank() == 1;
        const at::Tensor nothing = at::zeros({1}).requires_grad_();
        (misses ? nothing.sum() : squares(output, numbers(6, 4, 9))).backward();
      }
      model.finish_step();
    });
    EXPECT_NE(said.find("rank 1 called"), std::string::npos) << kind << ": " << said;
    EXPECT_NE(said.find("for the averages of step 2"), std::string::npos) << kind << ": " << said;
    EXPECT_NE(said.find("for the averages of step 3"), std::string::npos) << kind << ": " << said;
  }
}

TEST_F(Failing, ABatchThatARankSkipsBeforeBackwardIsNoStep) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    for (int step = 0; step < 4; ++step) {
      if (step == 2 && communicator.rank() == 1) model(numbers(6, 8, 70));
      squares(model(numbers(6, 8, step)), numbers(6, 4, 9)).backward();
      {
        const auto guard = model.no_sync();
        model(numbers(6, 8, step));
        at::zeros({1}).requires_grad_().sum().backward();
      }
    }
    EXPECT_TRUE(same_everywhere(communicator, bits({model->first->weight.grad()})));
  });
}

TEST_F(Failing, ModelsThatDifferAreNamed) {
  const auto errors = run_ranks(4, [](Communicator& communicator) {
    const DistributedDataParallel model(Chain(0, communicator.rank() == 2 ? 17 : 16), communicator);
  });
  for (const auto& error : errors) {
    EXPECT_THROW(std::rethrow_exception(error), MismatchError);
    EXPECT_NE(
        message(error).find("rank 2 has 'first.weight' Float [17, 8] where rank 0 has 'first.weight' Float "
                            "[16, 8]"),
        std::string::npos)
        << message(error);
  }
}

TEST_F(Failing, AModelWithAnotherNumberOfParametersIsNamed) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      const DistributedDataParallel model(Chain(0), communicator);
    } else {
      const DistributedDataParallel model(torch::nn::Linear(8, 4), communicator);
    }
  });
  for (const auto& error : errors) {
    EXPECT_NE(message(error).find("rank 1 has 'weight'"), std::string::npos) << message(error);
  }
}

TEST_F(Failing, NothingToTrainIsRefused) {
  const auto errors = run_ranks(1, [](Communicator& communicator) {
    Chain chain(0);
    for (at::Tensor& parameter : chain->parameters()) parameter.set_requires_grad(false);
    const DistributedDataParallel model(chain, communicator);
  });
  EXPECT_THROW(std::rethrow_exception(errors[0]), InvalidArgumentError);
}

TEST_F(Failing, ALostRankEndsBackwardOnTheOthers) {
  const auto errors = run_ranks(4, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    squares(model(numbers(6, 8, 1)), numbers(6, 4, 9)).backward();
    if (communicator.rank() == 1) throw std::runtime_error("out of data");
    try {
      squares(model(numbers(6, 8, 1)), numbers(6, 4, 9)).backward();
    } catch (const Error&) {
      // The object says the same from then on.
      EXPECT_THROW(model(numbers(6, 8, 1)), Error);
      throw;
    }
  });
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    ASSERT_TRUE(errors[rank]) << "rank " << rank;
    if (rank == 1) continue;
    EXPECT_THROW(std::rethrow_exception(errors[rank]), PeerLostError) << message(errors[rank]);
    EXPECT_NE(message(errors[rank]).find("rank 1"), std::string::npos) << message(errors[rank]);
  }
}

TEST_F(Failing, ABackwardThatBrokeOffIsRemembered) {
  const auto errors = run_ranks(1, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    bool fail = true;
    model->first->weight.register_hook([&](const at::Tensor& gradient) {
      if (fail) throw std::runtime_error("a hook of the user's");
      return gradient;
    });
    EXPECT_THROW(squares(model(numbers(6, 8, 1)), numbers(6, 4, 9)).backward(), std::runtime_error);
    fail = false;
    model(numbers(6, 8, 1));
  });
  EXPECT_NE(message(errors[0]).find("rank 0 aborted: an exception broke off its backward()"),
            std::string::npos)
      << message(errors[0]);
}

}  // namespace
}  // namespace kolo::test::ddp
