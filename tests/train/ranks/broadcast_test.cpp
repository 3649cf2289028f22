// broadcast(): after it all ranks train alike, whatever they held before.
#include "train/support/models.hpp"

#include "kolo/train/averages.hpp"

#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kolo/error.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ranks {
namespace {

using OptimizerPtr = std::shared_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<OptimizerPtr(std::vector<at::Tensor> parameters, double rate)>;

class Broadcast : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// The same on every rank that holds the same.
void steps(Chain& chain, torch::optim::Optimizer& optimizer, int count, double seed) {
  for (int step = 0; step < count; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = squares(chain(numbers(6, 8, seed + step)), numbers(6, 4, 9));
      loss.backward();
      return loss;
    });
  }
}

void train_alike_after_a_broadcast(const MakeOptimizer& make, int steps_at_root, int steps_elsewhere) {
  for (const int root : {0, 2}) {
    run_all(3, [&](Communicator& communicator) {
      const bool is_root = communicator.rank() == root;
      Chain chain(communicator.rank());
      const OptimizerPtr optimizer = make(chain->parameters(), is_root ? 0.01 : 0.5);
      steps(chain, *optimizer, is_root ? steps_at_root : steps_elsewhere, communicator.rank());
      const auto before = bits(chain->parameters());
      broadcast(*chain, communicator, root);
      broadcast(*optimizer, communicator, root);
      EXPECT_EQ(bits(chain->parameters()) == before, is_root);
      EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
      steps(chain, *optimizer, 3, 50);
      EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
      EXPECT_NE(bits(chain->parameters()), before);
    });
  }
}

template <typename Optimizer, typename Options>
MakeOptimizer making(Options options) {
  return [options](std::vector<at::Tensor> parameters, double rate) mutable {
    options.lr(rate);
    return std::make_shared<Optimizer>(std::move(parameters), options);
  };
}

TEST_F(Broadcast, CopiesNothingToRanksThatHaveItAll) {
  run_all(3, [](Communicator& communicator) {
    Chain chain(7, 5000);
    const auto calls = [&] {
      const std::uint64_t before = communicator.counters().operations;
      broadcast(*chain, communicator, 1);
      return communicator.counters().operations - before;
    };
    const std::uint64_t least = calls();
    const c10::NoGradGuard no_grad;
    at::Tensor last = chain->second->weight.view({-1})[-1];  // far behind the first bytes
    if (communicator.rank() == 2) last.fill_(5);
    EXPECT_GT(calls(), least);
    EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
    EXPECT_NE(last.item<float>(), 5);
    EXPECT_EQ(calls(), least);
  });
}

TEST_F(Broadcast, OptimizersGoOnAlike) {
  using namespace torch::optim;
  const std::pair<const char*, MakeOptimizer> optimizers[] = {
      {"SGD", making<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01))},
      {"SGD without state", making<SGD>(SGDOptions(0.1))},
      {"Adam", making<Adam>(AdamOptions())},
      {"Adam with amsgrad", making<Adam>(AdamOptions().amsgrad(true))},
      {"AdamW", making<AdamW>(AdamWOptions())},
      {"RMSprop", making<RMSprop>(RMSpropOptions().momentum(0.5).centered(true))},
      {"Adagrad", making<Adagrad>(AdagradOptions().lr_decay(0.1))},
  };
  for (const auto& [name, make] : optimizers) {
    try {
      train_alike_after_a_broadcast(make, 3, 0);
      train_alike_after_a_broadcast(make, 0, 2);
      train_alike_after_a_broadcast(make, 3, 2);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST_F(Broadcast, EveryGroupHasItsOptions) {
  run_all(2, [](Communicator& communicator) {
    using namespace torch::optim;
    Chain chain(0);
    const double rate = communicator.rank() == 0 ? 0.1 : 0.3;
    SGD optimizer({OptimizerParamGroup(chain->first->parameters(), std::make_unique<SGDOptions>(rate)),
                   OptimizerParamGroup(chain->third->parameters(), std::make_unique<SGDOptions>(2 * rate))},
                  SGDOptions(rate));
    broadcast(optimizer, communicator);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.1);
    EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.2);
  });
}

TEST_F(Broadcast, AnOptimizerOfAnotherKindIsNamed) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    Chain chain(0);
    const OptimizerPtr optimizer =
        communicator.rank() == 1
            ? making<torch::optim::Adam>(torch::optim::AdamOptions())(chain->parameters(), 0.1)
            : making<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9))(chain->parameters(),
                                                                                     0.1);
    steps(chain, *optimizer, 1, 0);
    broadcast(*optimizer, communicator);
  });
  for (const auto& error : errors) {
    EXPECT_NE(message(error).find("rank 1 cannot load the optimizer: "), std::string::npos) << message(error);
  }
}

TEST_F(Broadcast, ACheckpointLoadedOnOneRankReachesAll) {
  run_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.check_parameters_every = 1;
    DistributedDataParallel model(Chain(0), communicator, options);
    model(numbers(6, 8, communicator.rank())).sum().backward();
    if (communicator.rank() == 0) fill(model.model(), 7);
    broadcast(model.model(), communicator);
    Chain loaded(7);
    EXPECT_EQ(bits(model.parameters()), bits(loaded->parameters()));
    model(numbers(6, 8, communicator.rank())).sum().backward();
  });
}

TEST_F(Broadcast, ObjectsOfAnyKindAreCopied) {
  run_all(3, [](Communicator& communicator) {
    const bool is_root = communicator.rank() == 1;
    std::vector<at::Tensor> tensors;
    if (is_root) tensors = {numbers(2, 3, 1), at::arange(4)};
    broadcast_object(tensors, communicator, 1);
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_TRUE(tensors[0].equal(numbers(2, 3, 1)) && tensors[1].equal(at::arange(4)));
    std::string text = is_root ? "of rank 1" : "";
    broadcast_object([&](std::ostream& to) { to << text; },
                     [&](std::istream& from) { std::getline(from, text); }, communicator, 1);
    EXPECT_EQ(text, "of rank 1");
  });
}

TEST_F(Broadcast, AnObjectThatCannotBeSavedOrLoadedIsAnErrorOnAllRanks) {
  const auto fails = [](std::ios&) { throw std::runtime_error("no"); };
  const auto works = [](std::ios&) {};
  const std::string saved =
      error_of_all(2, [&](Communicator& communicator) { broadcast_object(fails, works, communicator); });
  EXPECT_NE(saved.find("rank 0 cannot save the object: no"), std::string::npos) << saved;
  const std::string loaded =
      error_of_all(2, [&](Communicator& communicator) { broadcast_object(works, fails, communicator); });
  EXPECT_NE(loaded.find("rank 1 cannot load the object: no"), std::string::npos) << loaded;
}

/// One large parameter, and a tensor without elements that is all that is small.
struct LargeImpl : torch::nn::Module {
  explicit LargeImpl(double value) {
    large = register_parameter("large", at::full({600, 600}, value));
    empty = register_parameter("empty", at::zeros({0, 3}));
    register_buffer("none", at::zeros({0}));
  }
  at::Tensor forward(const at::Tensor& x) { return (large * x).sum() + empty.sum(); }

  at::Tensor large, empty;
};
TORCH_MODULE(Large);

TEST_F(Broadcast, AllThatIsSmallMayHaveNoElements) {
  run_all(2, [](Communicator& communicator) {
    const Large copied(communicator.rank() + 1);
    broadcast(*copied, communicator);
    EXPECT_TRUE(copied->large.eq(1).all().item<bool>());
    Large large(communicator.rank() + 2);
    DistributedDataParallel model(large,
                                  communicator);  // broadcasts parameters, and the buffer in backward()
    EXPECT_TRUE(large->large.eq(2).all().item<bool>());
    model(at::full({}, communicator.rank() + 1.0)).backward();
    EXPECT_TRUE(large->large.grad().eq(1.5).all().item<bool>());
  });
}

TEST_F(Broadcast, ModelsThatDifferAreNamed) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    const Chain chain(0, communicator.rank() == 1 ? 17 : 16);
    broadcast(*chain, communicator);
  });
  for (const auto& error : errors) {
    EXPECT_THROW(std::rethrow_exception(error), MismatchError);
    EXPECT_NE(message(error).find("rank 1 has 'first.weight' Float [17, 8] where rank 0 has"),
              std::string::npos)
        << message(error);
  }
}

}  // namespace
}  // namespace kolo::test::ranks
