// DataParallel: what one process computes with the whole batch, whatever the number of replicas.
#include "methods/data_parallel.hpp"

#include <gtest/gtest.h>

#include "train/methods/data_parallel/models.hpp"

#include <c10/core/InferenceMode.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "support/watchdog.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::data_parallel {
namespace {

class Replicas : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  Watchdog watchdog_{std::chrono::seconds(60)};
};

TEST_F(Replicas, GradientsAreThoseOfTheWholeBatch) {
  for (const auto& [batch, replicas] : {std::pair{8, 2}, {7, 3}, {2, 3}, {1, 4}, {5, 4}, {6, 1}, {0, 2}}) {
    SCOPED_TRACE(std::to_string(batch) + " samples, " + std::to_string(replicas) + " replicas");
    Layers alone = in_doubles(Layers());
    DataParallel model(in_doubles(Layers()), {.replicas = replicas});
    const at::Tensor x = doubles(batch, 4, 1), target = doubles(batch, 2, 2);
    for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradients of the first
      const at::Tensor output = model(x);
      EXPECT_TRUE(close(output, alone->forward(x)));
      (output - target).square().sum().backward();
      (alone->forward(x) - target).square().sum().backward();
      expect_same_gradients(model.model(), *alone);
    }
  }
}

TEST_F(Replicas, TrainsAsRanksOfDistributedDataParallelDo) {
  constexpr int kWorkers = 4, kSteps = 20;
  const auto batch = [](int step) { return doubles(4 * kWorkers, 4, step); };
  const auto target = [&](int step) { return batch(step).slice(1, 0, 2); };
  const auto train = [&](auto& model, const auto& share) {
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = squares(model(share(batch(step))), share(target(step)));
      loss.backward();
      optimizer.step();
      losses.push_back(loss.template item<double>());
    }
    return losses;
  };
  DataParallel parallel(in_doubles(Layers()), {.replicas = kWorkers});
  const auto losses = train(parallel, [](const at::Tensor& all) { return all; });
  run_all(kWorkers, [&](Communicator& communicator) {
    DistributedDataParallel model(in_doubles(Layers()), communicator);
    auto theirs = train(model, [&](const at::Tensor& all) {
      return all.slice(0, 4 * communicator.rank(), 4 * (communicator.rank() + 1));
    });
    communicator.all_reduce(Buffer(theirs), ReduceOp::average);
    for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(losses[step], theirs[step], 1e-10) << step;
    const auto ours = parallel.parameters(), parameters = model.parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(close(ours[i], parameters[i]));
  });
  EXPECT_LT(losses.back(), 0.9 * losses.front());
}

TEST_F(Replicas, GradientsHaveTheSameBitsInEveryRun) {
  const auto run = [] {
    DataParallel model(Layers(), {.replicas = 4});
    model(numbers(9, 4, 1)).square().sum().backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
    return bits(gradients);
  };
  const auto first = run();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(), first);
}

TEST_F(Replicas, ReplicasComputeWithTheModelsOwnMemory) {
  std::vector<void*> seen(2);
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    seen[static_cast<std::size_t>(x[0][0].item<double>())] = replica.weight.data_ptr();
    return x.matmul(replica.weight);
  });
  DataParallel model(net);
  const at::Tensor x = at::arange(2, at::kDouble).unsqueeze(1).expand({2, 4});
  model(x);
  EXPECT_EQ(seen, std::vector<void*>(2, net->weight.data_ptr()));
  net->weight.set_data(net->weight.data().clone());  // as loading a model does
  model(x);
  EXPECT_EQ(seen, std::vector<void*>(2, net->weight.data_ptr()));
}

struct ManyImpl : torch::nn::Cloneable<ManyImpl> {
  using Output = std::tuple<at::Tensor, std::vector<at::Tensor>, std::optional<at::Tensor>, at::Tensor, int>;
  ManyImpl() { reset(); }
  void reset() override { linear = register_module("linear", torch::nn::Linear(4, 2)); }
  Output forward(const std::pair<at::Tensor, std::map<std::string, at::Tensor>>& x, at::Tensor& more,
                 double factor, const std::string& which, const std::optional<at::Tensor>& nothing) {
    const at::Tensor y = linear(x.first) * factor;
    return {y, {y * x.second.at(which), more.sum(1)}, nothing, y.sum(), 7};
  }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Many);

TEST_F(Replicas, ArgumentsAndOutputsMayBeManyThings) {
  Many alone = in_doubles(Many());
  fill(*alone, 2);
  Many net = in_doubles(Many());
  fill(*net, 2);
  DataParallel model(net, {.replicas = 3});
  at::Tensor x = doubles(7, 4, 1).set_requires_grad(true), y = doubles(7, 4, 1).set_requires_grad(true);
  const std::map<std::string, at::Tensor> marks{{"a", doubles(7, 2, 3)}, {"b", doubles(7, 2, 4)}};
  at::Tensor more = doubles(7, 3, 5).set_requires_grad(true), unused = doubles(7, 3, 5);
  auto [ours, list, nothing, losses, number] =
      model(std::pair(x, marks), more, 0.5, "b", std::optional<at::Tensor>());
  const auto [theirs, their_list, _, loss, seven] = alone->forward({y, marks}, unused, 0.5, "b", {});
  EXPECT_TRUE(close(ours, theirs));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(close(list[0], their_list[0]));
  EXPECT_TRUE(close(list[1], their_list[1]));
  EXPECT_FALSE(nothing.has_value());
  EXPECT_EQ(losses.sizes(), at::IntArrayRef({3})) << "one of each replica";
  EXPECT_TRUE(close(losses.sum(), loss));
  EXPECT_EQ(number, 7);
  (list[0].square().sum() + 2 * losses.sum()).backward();
  (their_list[0].square().sum() + 2 * loss).backward();
  expect_same_gradients(*net, *alone);
  EXPECT_TRUE(close(x.grad(), y.grad())) << "gradients go on to what the arguments were computed from";
  EXPECT_FALSE(more.grad().defined());
}

TEST_F(Replicas, GraphsMayGoOnBeforeAndBehind) {
  Layers alone = in_doubles(Layers());
  DataParallel model(in_doubles(Layers()), {.replicas = 2});
  at::Tensor a = doubles(5, 4, 1).set_requires_grad(true), b = a.detach().clone().set_requires_grad(true);
  model(a * 2).sigmoid().sum().backward();
  alone->forward(b * 2).sigmoid().sum().backward();
  expect_same_gradients(model.model(), *alone);
  EXPECT_TRUE(close(a.grad(), b.grad()));
}

TEST_F(Replicas, SeveralForwardsMayComeBeforeOneBackward) {
  Normalized alone = in_doubles(Normalized());
  DataParallel model(in_doubles(Normalized()), {.replicas = 2});
  const auto twice = [](const auto& forward) {
    (forward(doubles(6, 4, 1)).square().sum() + forward(doubles(8, 4, 2)).sin().sum()).backward();
  };
  for (const bool is_training : {false, true}) {
    alone->train(is_training);
    model->train(is_training);
    twice([&](const at::Tensor& x) { return model(x); });
    twice([&](const at::Tensor& x) {  // what normalizes normalizes a replica's part
      if (!is_training) return alone->forward(x);
      return at::cat({alone->forward(x.chunk(2)[0]), alone->forward(x.chunk(2)[1])});
    });
    expect_same_gradients(model.model(), *alone);
  }
}

TEST_F(Replicas, TheFirstReplicasBuffersAreTheModels) {
  Normalized alone = in_doubles(Normalized());
  DataParallel model(in_doubles(Normalized()), {.replicas = 2});
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = doubles(8, 4, step);
    model(x).sum().backward();
    alone->forward(x.slice(0, 0, 4));
    EXPECT_TRUE(close(model->norm->running_mean, alone->norm->running_mean));
    EXPECT_TRUE(close(model->norm->running_var, alone->norm->running_var));
    EXPECT_EQ(model->norm->num_batches_tracked.item<int>(), step + 1);
  }
  model->eval();
  alone->eval();
  const at::Tensor x = doubles(8, 4, 9);
  EXPECT_TRUE(close(model(x), alone->forward(x))) << "all replicas normalize by these";
}

TEST_F(Replicas, EvaluationMakesNoGraph) {
  DataParallel model(in_doubles(Normalized()), {.replicas = 3});
  model->eval();
  const at::Tensor x = doubles(7, 4, 1), expected = model(x).detach();
  {
    const c10::NoGradGuard no_grad;
    const at::Tensor output = model(x);
    EXPECT_FALSE(output.requires_grad());
    EXPECT_TRUE(close(output, expected));
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(close(model(x), expected));
  }
  EXPECT_TRUE(model(x).requires_grad());
}

TEST_F(Replicas, FollowTheModelsModesFrozenParametersAndType) {
  Layers alone;
  DataParallel model(Layers(), {.replicas = 2});
  for (const bool is_frozen : {true, false}) {
    alone->first->weight.set_requires_grad(!is_frozen);
    model->first->weight.set_requires_grad(!is_frozen);
    alone->to(at::kDouble);
    model->to(at::kDouble);
    model(doubles(4, 4, 1)).square().sum().backward();
    alone->forward(doubles(4, 4, 1)).square().sum().backward();
    EXPECT_EQ(model->first->weight.grad().defined(), !is_frozen);
    expect_same_gradients(model.model(), *alone);
  }
  for (at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
  EXPECT_FALSE(model(doubles(4, 4, 1)).requires_grad());
}

TEST_F(Replicas, UnusedParametersStayWithoutGradient) {
  Free net([](FreeImpl& replica, const at::Tensor& x) {
    at::Tensor y = x.matmul(replica.weight);  // the first replica alone uses the other one
    return x[0][0].item<double>() == 0 ? y + x.matmul(replica.other) : y;
  });
  DataParallel model(net);
  const at::Tensor x = at::arange(2, at::kDouble).unsqueeze(1).expand({2, 4}) + 1;
  model(x).sum().backward();
  EXPECT_TRUE(net->weight.grad().defined());
  EXPECT_FALSE(net->other.grad().defined());
  model(x - 1).sum().backward();
  EXPECT_TRUE(net->other.grad().defined());
}

/// One weight under two names.
struct TiedImpl : torch::nn::Cloneable<TiedImpl> {
  explicit TiedImpl(bool is_tied_ = true) : is_tied(is_tied_) { reset(); }
  void reset() override {
    weight = register_parameter("weight", doubles(4, 4, 1));
    other = register_parameter("other", is_tied ? weight : doubles(4, 4, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(x.matmul(weight)).matmul(other); }

  bool is_tied;
  at::Tensor weight, other;
};
TORCH_MODULE(Tied);

TEST_F(Replicas, TiedWeightsCountOnce) {
  Tied alone, net;
  DataParallel model(net, {.replicas = 3});
  EXPECT_EQ(model.parameters().size(), 1u);
  model(doubles(5, 4, 2)).square().sum().backward();
  alone->forward(doubles(5, 4, 2)).square().sum().backward();
  expect_same_gradients(*net, *alone);
  // Replicas whose weights are not tied compute with the same memory, and each name has a part of the
  // gradient.
  Tied again;
  DataParallel untied(again, {.replicas = 3}, [] { return std::make_shared<TiedImpl>(false); });
  untied(doubles(5, 4, 2)).square().sum().backward();
  expect_same_gradients(*again, *alone);
  EXPECT_THROW(DataParallel(Tied(false), {}, [] { return std::make_shared<TiedImpl>(true); }),
               InvalidArgumentError);
}

TEST_F(Replicas, TablesAndSharedGradientsAddUp) {
  struct TablesImpl : torch::nn::Cloneable<TablesImpl> {
    TablesImpl() { reset(); }
    void reset() override {
      table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true)));
      one = register_parameter("one", numbers(1, 3, 1).to(at::kDouble));
      two = register_parameter("two", numbers(3, 1, 2).to(at::kDouble));
      fill(*this, 1);
    }
    /// libtorch gives both parameters gradients over one piece of memory.
    at::Tensor forward(const at::Tensor& x) { return table(x) + (one.view({3}) + two.view({3})); }
    torch::nn::Embedding table{nullptr};
    at::Tensor one, two;
  };
  const auto alone = std::make_shared<TablesImpl>(), net = std::make_shared<TablesImpl>();
  alone->to(at::kDouble);
  net->to(at::kDouble);
  DataParallel model(net, {.replicas = 3});
  const at::Tensor x = at::arange(7, at::kLong).remainder(4);
  model(x).square().sum().backward();
  alone->forward(x).square().sum().backward();
  EXPECT_TRUE(net->table->weight.grad().is_sparse());
  EXPECT_TRUE(close(net->table->weight.grad().to_dense(), alone->table->weight.grad().to_dense()));
  EXPECT_TRUE(close(net->one.grad(), alone->one.grad()));
  EXPECT_TRUE(close(net->two.grad(), alone->two.grad()));
}

TEST_F(Replicas, ModelsWithoutCloneTakeAFunctionThatMakesThem) {
  Chain alone(3), net(3);
  DataParallel model(net, {.replicas = 3}, [] { return std::make_shared<ChainImpl>(99); });
  model(numbers(7, 8, 1)).square().sum().backward();
  alone->forward(numbers(7, 8, 1)).square().sum().backward();
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad(), 1e-5, 1e-6));
}

TEST_F(Replicas, DropoutDiffersBetweenReplicas) {
  struct DropImpl : torch::nn::Cloneable<DropImpl> {
    void reset() override {}
    at::Tensor forward(const at::Tensor& x) { return at::dropout(x, 0.5, is_training()); }
  };
  DataParallel model(std::make_shared<DropImpl>());
  const at::Tensor x = at::ones({2, 256});
  const at::Tensor dropped = model(x);
  EXPECT_FALSE(at::equal(dropped[0], dropped[1]));
  model->eval();
  EXPECT_TRUE(at::equal(model(x), x));
}

}  // namespace
}  // namespace kolo::test::data_parallel
