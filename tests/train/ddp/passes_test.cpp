// Backward passes that contain others, that begin elsewhere than at the output, or that break off on one
// rank.
#include "train/support/models.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>

#include "kolo/error.hpp"
#include "kolo/train/recompute.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

class Passes : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};
using Aborts = Passes;

bool is_filled(const at::Tensor& gradient, double value) {
  return gradient.defined() && gradient.eq(value).all().item().toBool();
}

/// Keeps a penalty that only the loss knows; `kind` says whether it is computed anew in backward.
struct PenalizedImpl : torch::nn::Module {
  enum class Kind { plain, checkpointed };
  explicit PenalizedImpl(Kind kind_) : used(8, 4), hidden(8, 4), kind(kind_) {
    register_module("used", used);
    register_module("hidden", hidden);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor output = used(x);
    penalty = kind == Kind::plain ? hidden(x) : recompute(hidden, x.clone().requires_grad_(true));
    penalty = penalty.sum();
    return output;
  }

  torch::nn::Linear used, hidden;
  at::Tensor penalty;
  Kind kind;
};
TORCH_MODULE(Penalized);

at::Tensor input_of(const Communicator& communicator) {
  return at::full({1, 8}, static_cast<double>(communicator.rank()), at::kFloat);
}

TEST_F(Passes, ALossWithoutTheOutputIsAveragedWhileTheOutputIsKept) {
  for (const auto kind : {PenalizedImpl::Kind::plain, PenalizedImpl::Kind::checkpointed}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(Penalized(kind), communicator, finding_unused());
      for (int step = 0; step < 3; ++step) {
        for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
        const at::Tensor output = model(input_of(communicator));
        model.prepare_backward({});
        model->penalty.backward();
        EXPECT_TRUE(is_filled(model->hidden->weight.grad(), 0.5)) << "step " << step;
        EXPECT_FALSE(model->used->weight.grad().defined());
        EXPECT_EQ(model.total().steps, step + 1u);
      }
    });
  }
}

TEST_F(Passes, ALossWithoutTheOutputThatMissesAParameterIsAnErrorAtOnce) {
  for (const auto kind : {PenalizedImpl::Kind::plain, PenalizedImpl::Kind::checkpointed}) {
    run_all(1, [&](Communicator& communicator) {
      DistributedDataParallel model(Penalized(kind), communicator, small_buckets());
      const at::Tensor output = model(input_of(communicator));
      try {
        model->penalty.backward();
        ADD_FAILURE() << "nobody misses the gradient of 'used.weight'";
      } catch (const InvalidArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("'used.weight', 'used.bias'"), std::string::npos)
            << error.what();
      }
    });
  }
}

/// Computes the penalty anew before backward reaches the output, which forward() had before.
TEST_F(Passes, WhatIsComputedAnewBeforeTheOutputsTurnBelongsToThePass) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Penalized(PenalizedImpl::Kind::checkpointed), communicator,
                                  small_buckets());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      const at::Tensor output = model(input_of(communicator));
      (output.sum() + model->penalty).backward();
      for (const auto& gradient : {model->used->weight.grad(), model->hidden->weight.grad()})
        EXPECT_TRUE(is_filled(gradient, 0.5)) << "step " << step;
      EXPECT_EQ(model.total().steps, step);
    }
  });
}

/// Backward computes every layer anew, and nothing but these layers has parameters.
struct DeepImpl : torch::nn::Module {
  static constexpr int kLayers = 4;
  DeepImpl() : idle(8, 8) {
    for (int i = 0; i < kLayers; ++i) {
      layers.emplace_back(8, 8);
      register_module("layer" + std::to_string(i), layers.back());
    }
    register_module("idle", idle);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor next = x.clone().requires_grad_(true);
    for (torch::nn::Linear& layer : layers) next = at::tanh(recompute(layer, next));
    return next;
  }
  at::Tensor plain(at::Tensor x) {
    for (torch::nn::Linear& layer : layers) x = at::tanh(layer(x));
    return x;
  }

  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear idle;
};
TORCH_MODULE(Deep);

TEST_F(Passes, CheckpointedLayersAreAveragedOnceWithFindUnusedParameters) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Deep(), communicator, finding_unused());
    Deep reference;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor output = model(numbers(6, 8, communicator.rank() + step));
      model.prepare_backward({});  // the graph does not show such layers
      const auto before = communicator.counters().operations;
      output.square().sum().backward();
      // One for each bucket, and one to agree on what is used.
      EXPECT_EQ(communicator.counters().operations - before, model.buckets().size() + 1);
      EXPECT_EQ(model.last_step().all_reduces, model.buckets().size());
      EXPECT_EQ(model.total().steps, step + 1u);
      for (int rank = 0; rank < 2; ++rank)
        (reference->plain(numbers(6, 8, rank + step)).square().sum() / 2).backward();
      for (int i = 0; i < DeepImpl::kLayers; ++i) {
        const auto layer = static_cast<std::size_t>(i);
        EXPECT_TRUE(at::allclose(model->layers[layer]->weight.grad(), reference->layers[layer]->weight.grad(),
                                 1e-4, 1e-6))
            << "layer " << i << " in step " << step;
      }
      EXPECT_FALSE(model->idle->weight.grad().defined());
    }
  });
}

TEST_F(Passes, CheckpointedLayersWithAParameterThatGetsNoGradientAreAnErrorAtOnce) {
  run_all(1, [](Communicator& communicator) {
    DistributedDataParallel model(Deep(), communicator, small_buckets());
    const at::Tensor output = model(numbers(6, 8, communicator.rank()));
    try {
      output.square().sum().backward();
      ADD_FAILURE() << "nobody misses the gradient of 'idle.weight'";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("'idle.weight', 'idle.bias'"), std::string::npos)
          << error.what();
    }
  });
}

/// Throws where a rank's `throws` says so, when backward comes to `tensor`.
void throw_at(const at::Tensor& tensor, const bool& throws) {
  tensor.register_hook([&throws](const at::Tensor& gradient) {
    if (throws) throw std::runtime_error("a hook of the user's");
    return gradient;
  });
}

/// What `call` throws, soon.
template <typename Expected>
std::string error_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    call();
  } catch (const Expected& error) {
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8)) << error.what();
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

TEST_F(Aborts, ABackwardThatBreaksOffOnOneRankIsToldToAll) {
  std::barrier together(3);  // whatever is under way on a rank would end
  run_all(3, [&](Communicator& communicator) {
    const bool is_odd = communicator.rank() == 1;
    const Chain chain(0);
    {
      DistributedDataParallel model(chain, communicator, small_buckets());
      const auto loss = [&] { return squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)); };
      loss().backward();
      bool throws = is_odd;
      throw_at(model->second->weight, throws);  // the third layer's gradients are ready before
      const at::Tensor next = loss();
      together.arrive_and_wait();
      const std::string expected =
          "rank 1 aborted: an exception broke off its backward(), so the ranks' gradients no longer belong";
      if (is_odd) {
        EXPECT_EQ(error_of<std::runtime_error>([&] { next.backward({}, true); }), "a hook of the user's");
        throws = false;
        EXPECT_NE(error_of<AbortedError>([&] { next.backward(); }).find(expected), std::string::npos);
      } else {
        const std::string error = error_of<AbortedError>([&] { next.backward(); });
        EXPECT_NE(error.find(expected), std::string::npos) << error;
      }
      const std::string error = error_of<AbortedError>([&] { model(numbers(6, 8, 1)); });
      EXPECT_NE(error.find(expected), std::string::npos) << error;
    }
    // The rank lives: all go on.
    Communicator next = communicator.shrink();
    ASSERT_EQ(next.size(), 3);
    DistributedDataParallel model(chain, next, small_buckets());
    for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
    squares(model(numbers(6, 8, next.rank())), numbers(6, 4, 9)).backward();
    EXPECT_TRUE(same_everywhere(next, bits({model->first->weight.grad()})));
  });
}

TEST_F(Aborts, ANestedBackwardThatBreaksOffIsToldToo) {
  std::barrier together(2);
  run_all(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Deep(), communicator, finding_unused());
    together.arrive_and_wait();
    bool throws = communicator.rank() == 0;
    throw_at(model->layers[1]->weight, throws);
    const at::Tensor output = model(numbers(6, 8, communicator.rank()));
    model.prepare_backward({});
    const std::string error = communicator.rank() == 0
                                  ? error_of<std::runtime_error>([&] { output.sum().backward(); })
                                  : error_of<AbortedError>([&] { output.sum().backward(); });
    EXPECT_NE(error.find(communicator.rank() == 0 ? "a hook of the user's" : "rank 0 aborted"),
              std::string::npos)
        << error;
  });
}

TEST_F(Aborts, WhatOneRankRefusesTheOthersAreTold) {
  std::barrier together(3);
  run_all(3, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    together.arrive_and_wait();
    if (communicator.rank() == 2) {
      const auto without_the_first = [&] {
        (model->third->weight.sum() + model->third->bias.sum()).backward();
      };
      EXPECT_NE(error_of<InvalidArgumentError>(without_the_first).find("has no gradient for 'first.weight'"),
                std::string::npos);
    } else {
      const std::string error = error_of<AbortedError>([&] { model(numbers(6, 8, 1)).sum().backward(); });
      EXPECT_NE(error.find("rank 2 aborted: rank 2 has no gradient for 'first.weight'"), std::string::npos)
          << error;
    }
  });
}

// No gradient was ready: the rank has done nothing that another rank can see, and makes that step with its
// next batch.
TEST_F(Aborts, ABackwardThatBreaksOffBeforeAnyGradientIsNoFailure) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    for (int batch = 0; batch < (communicator.rank() == 0 ? 2 : 3); ++batch) {
      const at::Tensor loss = model(numbers(6, 8, communicator.rank() + batch)).square().sum();
      const bool throws = communicator.rank() == 1 && batch == 0;
      throw_at(loss, throws);
      if (throws) {
        EXPECT_THROW(loss.backward(), std::runtime_error);
      } else {
        loss.backward();
        EXPECT_TRUE(same_everywhere(communicator, bits({model->first->weight.grad()})));
      }
    }
  });
}

}  // namespace
}  // namespace kolo::test::ddp
