// static_graph: parameters that are used several times or never, the same in each backward.
#include "train/support/models.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/tensor.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

/// Layers that share parameters, computed anew in backward, beside uses that are not.
struct SharingImpl : torch::nn::Module {
  SharingImpl() : shared(8, 8), some(8, 8), idle(8, 8) {
    register_module("shared", shared);
    register_module("some", some);
    register_module("idle", idle);
    fill(*this, 1);
  }
  at::Tensor apply(torch::nn::Linear& layer, const at::Tensor& x) const {
    return at::tanh(is_plain ? layer(x) : recompute(layer, x));
  }
  at::Tensor forward(const at::Tensor& x, int times, bool use_some) {
    at::Tensor next = x.clone().requires_grad_(true);
    for (int i = 0; i < times; ++i) next = apply(shared, next);
    if (use_some) next = next + some(apply(some, next));
    return next + shared(x);
  }

  torch::nn::Linear shared, some, idle;
  bool is_plain = false;
};
TORCH_MODULE(Sharing);

DistributedDataParallelOptions with_static_graph() {
  auto options = small_buckets();
  options.static_graph = true;
  return options;
}

class StaticGraphs : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// What `model` should have after a step, rank r's loss being that of use_some(r).
void expect_average(Sharing& model, double seed, const std::function<bool(int)>& use_some, double tolerance) {
  Sharing reference;
  reference->is_plain = true;
  for (int rank = 0; rank < 2; ++rank)
    (reference->forward(numbers(6, 8, seed + rank), 3, use_some(rank)).square().sum() / 2).backward();
  for (const char* name : {"shared.weight", "shared.bias", "some.weight", "some.bias"}) {
    EXPECT_TRUE(at::allclose(model->named_parameters()[name].grad(),
                             reference->named_parameters()[name].grad(), tolerance, tolerance))
        << name << " with seed " << seed;
  }
  EXPECT_FALSE(model->idle->weight.grad().defined());
}

TEST_F(StaticGraphs, SharedLayersThatAreComputedAnewGetTheirWholeGradient) {
  for (const bool has_hook : {false, true}) {
    run_all(2, [&](Communicator& communicator) {
      auto options = with_static_graph();
      if (has_hook) options.hook = make_gradient_hook("bfloat16");
      const auto is_used = [](int rank) { return rank == 0; };  // the hook gets zeros on rank 1
      Sharing net;
      DistributedDataParallel model(net, communicator, options);
      for (int step = 0; step < 4; ++step) {
        for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
        const auto before = communicator.counters().operations;
        model(numbers(6, 8, step + communicator.rank()), 3, is_used(communicator.rank()))
            .square()
            .sum()
            .backward();
        // Nothing to agree on after the first.
        if (step > 0 && !has_hook) {
          EXPECT_EQ(communicator.counters().operations - before, model.buckets().size());
        }
        expect_average(net, step, is_used, has_hook ? 0.03 : 1e-4);
        EXPECT_EQ(model.total().steps, step + 1u);
      }
      EXPECT_TRUE(
          same_everywhere(communicator, bits({net->shared->weight.grad(), net->some->weight.grad()})));
    });
  }
}

TEST_F(StaticGraphs, CommunicateUnderBackwardFromTheSecondOn) {
  run_all(1, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, with_static_graph());
    std::uint64_t averaged = 0;
    model->first->weight.register_hook([&](const at::Tensor& gradient) {
      averaged = communicator.counters().operations;
      return gradient;
    });
    for (int step = 0; step < 2; ++step) {
      const auto before = communicator.counters().operations;
      model(numbers(6, 8, 1)).sum().backward();
      EXPECT_EQ(averaged > before, step == 1) << "step " << step;
    }
  });
}

TEST_F(StaticGraphs, GoTogetherWithNoSync) {
  run_all(2, [&](Communicator& communicator) {
    Sharing net;
    DistributedDataParallel model(net, communicator, with_static_graph());
    for (int step = 0; step < 3; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      {
        const auto guard = model.no_sync();
        model(numbers(6, 8, step + communicator.rank()), 3, true).square().sum().mul(0.5).backward();
      }
      model(numbers(6, 8, step + communicator.rank()), 3, true).square().sum().mul(0.5).backward();
      expect_average(
          net, step, [](int) { return true; }, 1e-4);
    }
  });
}

TEST_F(StaticGraphs, RefuseAnotherGraphOnAllRanks) {
  struct Case {
    int times;
    bool use_some;
    const char* expected;
  };
  for (const auto& [times, use_some, expected] :
       {Case{3, true,
             "rank 1: 'shared.bias' got 4 gradients in one backward(), and 3 gradients in the first one"},
        Case{1, true,
             "rank 1: 'shared.weight' got 2 gradients in one backward(), and 3 gradients in the first one"},
        Case{2, false,
             "rank 1: 'some.weight' got 0 gradients in one backward(), and 2 gradients in the first one"}}) {
    const auto errors = run_ranks(2, [&](Communicator& communicator) {
      DistributedDataParallel model(Sharing(), communicator, with_static_graph());
      model(numbers(6, 8, 1), 2, true).sum().backward();
      const bool is_odd = communicator.rank() == 1;
      model(numbers(6, 8, 1), is_odd ? times : 2, is_odd ? use_some : true).sum().backward();
      // The other rank's averages may have been over by then.
      model(numbers(6, 8, 1), 2, true).sum().backward();
    });
    for (const auto& error : errors)
      EXPECT_NE(message(error).find(expected), std::string::npos) << message(error);
  }
}

TEST_F(StaticGraphs, LetRanksJoinThatHaveLessData) {
  run_all(2, [&](Communicator& communicator) {
    Sharing net;
    DistributedDataParallel model(net, communicator, with_static_graph());
    auto join = model.join(JoinMode::divide_by_active);
    int steps = 0;
    const auto update = [&] { ++steps; };
    for (int step = 0; step < (communicator.rank() == 0 ? 3 : 1); ++step) {
      join.step(6);
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      model(numbers(6, 8, 0), 3, true).square().sum().backward();
      update();
    }
    join.finish(update);
    EXPECT_EQ(steps, 3);
    Sharing reference;
    reference->is_plain = true;
    reference->forward(numbers(6, 8, 0), 3, true).square().sum().backward();
    EXPECT_TRUE(at::allclose(net->shared->weight.grad(), reference->shared->weight.grad(), 1e-4, 1e-4));
    EXPECT_TRUE(same_everywhere(communicator, bits({net->shared->weight.grad(), net->some->weight.grad()})));
  });
}

TEST_F(StaticGraphs, AnswerAlikeOnAllRanksWhetherAveragesAreFinite) {
  run_all(2, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {  // what buckets are made of has held other values before
      std::vector<at::Tensor> used;
      for (std::int64_t size = 16; size <= 4096; size *= 2) {
        for (int i = 0; i < 8; ++i) used.push_back(shared_empty({size}).fill_(std::nan("")));
      }
    }
    DistributedDataParallel model(Sharing(), communicator, with_static_graph());
    EXPECT_TRUE(model.averages_are_finite());
    for (int step = 0; step < 3; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      model(numbers(6, 8, step), 1, true).sum().backward();
      EXPECT_TRUE(model.averages_are_finite()) << "step " << step;
    }
  });
}

TEST_F(StaticGraphs, ExcludeFindUnusedParametersAndMustBeAskedForByAll) {
  EXPECT_NE(error_of_all(2,
                         [](Communicator& communicator) {
                           auto options = with_static_graph();
                           options.find_unused_parameters = true;
                           DistributedDataParallel model(Chain(0), communicator, options);
                         })
                .find("static_graph and find_unused_parameters exclude each other"),
            std::string::npos);
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator,
                                  communicator.rank() == 0 ? small_buckets() : with_static_graph());
  });
  EXPECT_NE(error.find("static_graph true"), std::string::npos) << error;
}

}  // namespace
}  // namespace kolo::test::ddp
