// Models and backward passes that are legal but not plain: the averages are right, or an error says what to
// do.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/embedding.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "kolo/error.hpp"
#include "kolo/train/recompute.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Unusual : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

bool near(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 1e-4, 1e-6);
}

/// One weight under two names, as the embedding and the last layer of a language model.
struct TiedImpl : torch::nn::Module {
  explicit TiedImpl(std::int64_t size) {
    weight = register_parameter("weight", numbers(size, size, 1).mul(0.01).clone());
    register_parameter("tied", weight);
    scale = register_parameter("scale", at::ones({4}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::matmul(at::matmul(x, weight), weight.t()).sum() * scale.sum();
  }

  at::Tensor weight, scale;
};
TORCH_MODULE(Tied);

TEST_F(Unusual, TiedWeightsAreAveragedOnce) {
  static constexpr std::int64_t kSize = 300;
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Tied(kSize), communicator, small_buckets());
    EXPECT_EQ(model.parameters().size(), 2u);
    for (int step = 0; step < 6; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      model(numbers(4, kSize, communicator.rank() + 10 * step)).backward();
      at::Tensor expected = at::zeros({kSize, kSize});
      for (int rank = 0; rank < 2; ++rank) {
        const at::Tensor weight = model->weight.detach().clone().requires_grad_(true);
        (at::matmul(at::matmul(numbers(4, kSize, rank + 10 * step), weight), weight.t()).sum() * 4)
            .backward();
        expected += weight.grad() / 2;
      }
      EXPECT_TRUE(at::allclose(model->weight.grad(), expected, 1e-3, 1e-3)) << "step " << step;
    }
  });
}

TEST_F(Unusual, TheNewestOfTwoOnOneParameterAveragesIt) {
  run_all(2, [](Communicator& communicator) {
    const Chain chain(0);
    DistributedDataParallel older(chain, communicator, small_buckets());
    squares(older(numbers(6, 8, 1)), numbers(6, 4, 9)).backward();
    DistributedDataParallel newer(chain, communicator, small_buckets());
    try {
      older(numbers(6, 8, 1));
      ADD_FAILURE() << "the older one still works";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("another DistributedDataParallel was made for 'first.weight'"),
                std::string::npos)
          << error.what();
    }
    newer(numbers(6, 8, communicator.rank())).sum().backward();
    EXPECT_TRUE(same_everywhere(communicator, bits({newer->first->weight.grad()})));
  });
}

TEST_F(Unusual, SurvivorsGoOnWhileTheFailedOneIsStillInScope) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    const Chain chain(0);
    DistributedDataParallel model(chain, communicator, small_buckets());
    model(numbers(6, 8, 1)).sum().backward();
    if (communicator.rank() == 2) throw std::runtime_error("out of data");
    EXPECT_THROW(model(numbers(6, 8, 1)).sum().backward(), Error);
    DistributedDataParallel again(chain, communicator.shrink(), small_buckets());
    for (at::Tensor& parameter : again.parameters()) parameter.mutable_grad() = at::Tensor();
    again(numbers(6, 8, communicator.rank())).sum().backward();
    Chain reference(0);
    (reference->forward(numbers(6, 8, 0)).sum() / 2 + reference->forward(numbers(6, 8, 1)).sum() / 2)
        .backward();
    EXPECT_TRUE(near(again->first->weight.grad(), reference->first->weight.grad()));
  });
  EXPECT_EQ(message(errors[0]), "");
  EXPECT_EQ(message(errors[1]), "");
}

TEST_F(Unusual, RanksThatFreezeDifferentLayersAreNamed) {
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    const Chain chain(0, 16);
    for (at::Tensor& parameter : (communicator.rank() == 0 ? chain->first : chain->third)->parameters()) {
      parameter.set_requires_grad(false);
    }
    const DistributedDataParallel model(chain, communicator);
  });
  EXPECT_NE(error.find("DistributedDataParallel: rank 1 has"), std::string::npos) << error;
}

TEST_F(Unusual, RanksWithOtherOptionsAreNamed) {
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    if (communicator.rank() == 1) options.bucket_bytes = 1000;
    const DistributedDataParallel model(Chain(0), communicator, options);
  });
  EXPECT_NE(error.find("rank 1 has the options first_bucket_bytes 1048576, bucket_bytes 1000"),
            std::string::npos)
      << error;
}

TEST_F(Unusual, AModelThatWasCastSinceIsAnError) {
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator);
    model->to(at::kDouble);
    model(numbers(6, 8, 1).to(at::kDouble)).sum().backward();
  });
  EXPECT_NE(error.find("parameter 'first.weight' is another one than when"), std::string::npos) << error;
}

TEST_F(Unusual, AThawedLayerIsAnErrorUntilItIsWrappedAnew) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(0);
    chain->first->weight.set_requires_grad(false);
    DistributedDataParallel head(chain, communicator);
    squares(head(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
    chain->first->weight.set_requires_grad(true);
    EXPECT_THROW(head(numbers(6, 8, 1)), InvalidArgumentError);
    DistributedDataParallel all(chain, communicator);
    all(numbers(6, 8, communicator.rank())).sum().backward();
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->first->weight.grad()})));
    // Outside of training nothing is asked of it.
    chain->eval();
    chain->to(at::kDouble);
    all(numbers(6, 8, 1).to(at::kDouble));
  });
}

TEST_F(Unusual, TrainingUnderEvalIsTrainingToo) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(0);
    chain->eval();
    at::Tensor& weight = chain->first->weight;
    weight.set_requires_grad(false);
    DistributedDataParallel model(chain, communicator, small_buckets());
    const auto train = [&](at::ScalarType type) {
      model(numbers(6, 8, communicator.rank()).to(type)).sum().backward();
    };
    train(at::kFloat);
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->third->weight.grad()})));
    weight.set_requires_grad(true);
    EXPECT_THROW(train(at::kFloat), InvalidArgumentError) << "a thawed layer";
    model(numbers(6, 8, 1));
    EXPECT_THROW(model.prepare_backward({}, false), InvalidArgumentError) << "it cannot see the outputs";
    weight.set_requires_grad(false);
    train(at::kFloat);
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->third->weight.grad()})));
    chain->zero_grad();
    chain->to(at::kDouble);
    EXPECT_THROW(train(at::kDouble), InvalidArgumentError) << "cast";
  });
}

TEST_F(Unusual, AParameterRegisteredSinceIsAnError) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(0);
    DistributedDataParallel old(chain, communicator);
    chain->register_module("bypass", torch::nn::Linear(8, 4));
    try {
      old(numbers(6, 8, 1));
      ADD_FAILURE() << "nobody misses the gradients of 'bypass'";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("'bypass.weight' was registered after"), std::string::npos)
          << error.what();
    }
    chain->unregister_module("bypass");
    chain->replace_module("third", torch::nn::Linear(16, 4));
    EXPECT_THROW(old(numbers(6, 8, 1)), InvalidArgumentError);
    // What is frozen, or nobody trains, needs no averages.
    chain->replace_module("third", chain->third.ptr());
    chain->register_parameter("scale", at::ones({1}), false);
    squares(old(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->first->weight.grad()})));
  });
}

TEST_F(Unusual, GradientsOfGradientsAreRefused) {
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator);
    model(numbers(6, 8, communicator.rank())).square().sum().backward({}, {}, true);
  });
  EXPECT_NE(error.find("create_graph"), std::string::npos) << error;
}

TEST_F(Unusual, WhatIsIgnoredBelongsToEachRank) {
  run_all(2, [](Communicator& communicator) {
    const auto rank = communicator.rank();
    Chain chain(3.0 * rank, 16);
    chain->register_buffer("own", at::full({1 + rank}, rank));
    const at::Tensor before = chain->second->bias.detach().clone();
    auto options = small_buckets();
    options.ignored = {"second.bias", "own"};
    options.check_parameters_every = 1;
    DistributedDataParallel model(chain, communicator, options);
    EXPECT_TRUE(at::equal(chain->second->bias, before)) << "took rank 0's values";
    squares(model(numbers(6, 8, rank)), numbers(6, 4, 9)).backward();
    squares(model(numbers(6, 8, rank)), numbers(6, 4, 9)).backward();
    EXPECT_EQ(chain->named_buffers()["own"].size(0), 1 + rank);
    EXPECT_TRUE(same_everywhere(communicator, bits({chain->first->weight.grad()})));
    EXPECT_FALSE(same_everywhere(communicator, bits({chain->second->bias.grad()})));
  });
  const std::string error = error_of_all(2, [](Communicator& communicator) {
    DistributedDataParallelOptions options;
    options.ignored = {"second.bais"};
    const DistributedDataParallel model(Chain(0), communicator, options);
  });
  EXPECT_NE(error.find("names 'second.bais', which the model does not have"), std::string::npos) << error;
}

struct MaskedImpl : torch::nn::Module {
  explicit MaskedImpl(const at::Tensor& mask) : linear(4, 4) {
    register_module("linear", linear);
    register_buffer("mask", mask);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }

  torch::nn::Linear linear;
};
TORCH_MODULE(Masked);

TEST_F(Unusual, BuffersThatCannotBeCopiedAreNamed) {
  for (const at::Tensor& mask : {at::ones({1}).expand({4}), at::eye(4).to_sparse(),
                                 at::empty({600'000}, at::TensorOptions(at::kMeta))}) {
    const std::string error = error_of_all(2, [&](Communicator& communicator) {
      const DistributedDataParallel model(Masked(mask), communicator);
    });
    EXPECT_NE(error.find("buffer 'mask' "), std::string::npos) << error;
  }
}

/// Gives the first of its two parameters a gradient, and the second none.
struct FirstOnly : torch::autograd::Function<FirstOnly> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const at::Tensor& first,
                            const at::Tensor&) {
    return x * first;
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], gradients[0], at::Tensor()};
  }
};
struct HalfDeafImpl : torch::nn::Module {
  HalfDeafImpl() {
    first = register_parameter("first", at::ones({4}));
    second = register_parameter("second", at::ones({4}));
  }
  at::Tensor forward(const at::Tensor& x) { return FirstOnly::apply(x, first, second); }

  at::Tensor first, second;
};
TORCH_MODULE(HalfDeaf);

TEST_F(Unusual, AnUndefinedGradientCountsAsNone) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel plain(HalfDeaf(), communicator, small_buckets());
    for (int step = 0; step < 2; ++step) plain(at::ones({4})).sum().backward();
    EXPECT_TRUE(plain->first.grad().eq(2).all().item().toBool());
    EXPECT_TRUE(plain->second.grad().eq(0).all().item().toBool());

    DistributedDataParallel finding(HalfDeaf(), communicator, finding_unused());
    for (int step = 0; step < 2; ++step) finding(at::ones({4})).sum().backward();
    EXPECT_TRUE(finding->first.grad().eq(2).all().item().toBool());
    EXPECT_FALSE(finding->second.grad().defined());
  });
}

struct CheckpointedImpl : torch::nn::Module {
  CheckpointedImpl() : first(8, 8), second(8, 8), third(8, 4) {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return recompute(third, at::relu(recompute(second, first(x)))); }
  at::Tensor plain(const at::Tensor& x) { return third(at::relu(second(first(x)))); }

  torch::nn::Linear first, second, third;
};
TORCH_MODULE(Checkpointed);

TEST_F(Unusual, LayersMayBeComputedAnewInBackward) {
  for (const auto& options : {small_buckets(), finding_unused()}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(Checkpointed(), communicator, options);
      Checkpointed reference;
      for (int step = 0; step < 3; ++step) {
        const at::Tensor output = model(numbers(6, 8, communicator.rank() + step));
        if (options.find_unused_parameters)
          model.prepare_backward({});  // the graph does not show such layers
        output.square().sum().backward();
        for (int rank = 0; rank < 2; ++rank) {
          (reference->plain(numbers(6, 8, rank + step)).square().sum() / 2).backward();
        }
        for (std::size_t i = 0; i < model.parameters().size(); ++i) {
          EXPECT_TRUE(near(model.parameters()[i].grad(), reference->parameters()[i].grad()))
              << "parameter " << i << " in step " << step;
        }
      }
    });
  }
}

TEST_F(Unusual, TwoForwardsMayPrecedeOneBackward) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(WithBuffers(), communicator);
    for (int step = 0; step < 2; ++step) {
      const at::Tensor real = model(numbers(6, 4, communicator.rank()));
      const at::Tensor fake = model(numbers(6, 4, communicator.rank() + 5));
      (real.square().sum() + fake.square().sum()).backward();
    }
    EXPECT_TRUE(
        same_everywhere(communicator, bits({model->norm->weight.grad(), model->linear->weight.grad()})));
  });
}

TEST_F(Unusual, WhatOnlyNoSyncUsedIsAveragedToo) {
  run_all(2, [](Communicator& communicator) {
    struct Branching : torch::nn::Module {
      Branching() : base(8, 4), extra(8, 4) {
        register_module("base", base);
        register_module("extra", extra);
      }
      at::Tensor forward(const at::Tensor& x, bool all) { return all ? base(x) + extra(x) : base(x); }
      torch::nn::Linear base, extra;
    };
    DistributedDataParallel<Branching> model(std::make_shared<Branching>(), communicator, small_buckets());
    {
      const auto guard = model.no_sync();
      model(at::full({1, 8}, static_cast<float>(communicator.rank())), true).sum().backward();
    }
    model(at::ones({1, 8}), false).sum().backward();
    EXPECT_TRUE(model->extra->weight.grad().eq(0.5).all().item().toBool());
  });
}

/// Returns its two layers' results as `How` wraps them.
template <typename How>
struct TwoHeads : torch::nn::Module {
  TwoHeads() : left(8, 4), right(8, 4), idle(8, 4) {
    register_module("left", left);
    register_module("right", right);
    register_module("idle", idle);
  }
  auto forward(const at::Tensor& x) { return How::wrap(left(x), right(x)); }

  torch::nn::Linear left, right, idle;
};

struct Heads {
  at::Tensor left, right;
};
struct InAStruct {
  static Heads wrap(const at::Tensor& left, const at::Tensor& right) { return {left, right}; }
  static at::Tensor sum(const Heads& heads) { return heads.left.sum() + heads.right.sum(); }
};
struct InAnOptional {
  using Pair = std::pair<at::Tensor, std::optional<at::Tensor>>;
  static Pair wrap(const at::Tensor& left, const at::Tensor& right) { return {left, right}; }
  static at::Tensor sum(const Pair& heads) { return heads.first.sum() + heads.second->sum(); }
};
struct InAMap {
  using Map = std::map<std::string, at::Tensor>;
  static Map wrap(const at::Tensor& left, const at::Tensor& right) {
    return {{"left", left}, {"right", right}};
  }
  static at::Tensor sum(const Map& heads) { return heads.at("left").sum() + heads.at("right").sum(); }
};
struct BesideAStruct {
  using Tuple = std::tuple<at::Tensor, int, Heads>;
  static Tuple wrap(const at::Tensor& left, const at::Tensor& right) { return {left, 1, {left, right}}; }
  static at::Tensor sum(const Tuple& heads) { return InAStruct::sum(std::get<2>(heads)); }
};

template <typename How>
void finds_unused() {
  run_all(2, [](Communicator& communicator) {
    using Model = TwoHeads<How>;
    DistributedDataParallel<Model> model(std::make_shared<Model>(), communicator, finding_unused());
    for (int step = 0; step < 2; ++step) {
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      How::sum(model(at::full({1, 8}, static_cast<float>(communicator.rank())))).backward();
      EXPECT_TRUE(model->left->weight.grad().eq(0.5).all().item().toBool());
      EXPECT_TRUE(model->right->weight.grad().eq(0.5).all().item().toBool());
      EXPECT_FALSE(model->idle->weight.grad().defined());
    }
  });
}

TEST_F(Unusual, UnusedParametersAreFoundWhateverForwardReturns) {
  finds_unused<InAStruct>();
  finds_unused<InAnOptional>();
  finds_unused<InAMap>();
  finds_unused<BesideAStruct>();
}

TEST_F(Unusual, WhatTheLossAddsBehindForwardsBackIsExplained) {
  struct Penalized : torch::nn::Module {
    Penalized() : used(8, 4), hidden(8, 4) {
      register_module("used", used);
      register_module("hidden", hidden);
    }
    at::Tensor forward(const at::Tensor& x) {
      penalty = hidden(x).sum();
      return used(x);
    }
    torch::nn::Linear used, hidden;
    at::Tensor penalty;
  };
  const auto step = [](Communicator& communicator, bool says_so) {
    DistributedDataParallel<Penalized> model(std::make_shared<Penalized>(), communicator, finding_unused());
    const at::Tensor output = model(at::full({1, 8}, static_cast<float>(communicator.rank())));
    if (says_so) model.prepare_backward({});
    (output.sum() + model->penalty).backward();
    EXPECT_TRUE(model->hidden->weight.grad().eq(0.5).all().item().toBool());
  };
  const std::string error = error_of_all(2, [&](Communicator& communicator) { step(communicator, false); });
  EXPECT_NE(error.find("call prepare_backward({}) after forward()"), std::string::npos) << error;
  run_all(2, [&](Communicator& communicator) { step(communicator, true); });
}

}  // namespace
}  // namespace kolo::test::ddp
