// DataParallel: which thread computes what, what a replica that throws does, and what is refused.
#include <gtest/gtest.h>

#include "train/methods/data_parallel/models.hpp"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/watchdog.hpp"

namespace kolo::test::data_parallel {
namespace {

class ReplicaThreadsTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  Watchdog watchdog_{std::chrono::seconds(60)};
};

/// What computed the sample x; rows of the batch are numbered.
struct Seen {
  std::mutex mutex;
  std::vector<std::thread::id> forward, backward;
  std::vector<int> operator_threads;
};

std::size_t row_of(const at::Tensor& x) {
  return static_cast<std::size_t>(x[0][0].item<double>());
}

at::Tensor rows(std::int64_t count) {
  return at::arange(count, at::kDouble).unsqueeze(1).expand({count, 4}).clone();
}

/// Calls a function in backward.
class Notice : public torch::autograd::Function<Notice> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::function<void()>* action) {
    context->saved_data["action"] = reinterpret_cast<std::int64_t>(action);
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    (*reinterpret_cast<std::function<void()>*>(context->saved_data["action"].toInt()))();
    return {gradients[0], {}};
  }
};

TEST_F(ReplicaThreadsTest, ForwardAndBackwardOfAReplicaRunInItsThread) {
  constexpr std::size_t kReplicas = 3;
  Seen seen;
  std::array<std::function<void()>, kReplicas> in_backward;
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    const std::size_t row = row_of(x);
    seen.forward[row] = std::this_thread::get_id();
    seen.operator_threads[row] = at::get_num_threads();
    in_backward[row] = [&seen, row] { seen.backward[row] = std::this_thread::get_id(); };
    return Notice::apply(x.matmul(replica.weight), &in_backward[row]);
  });
  at::set_num_threads(2);
  DataParallel model(net, {.replicas = kReplicas, .threads_per_replica = 3});
  EXPECT_EQ(at::get_num_threads(), 2);
  std::thread([] { EXPECT_EQ(at::get_num_threads(), 2) << "of threads to come"; }).join();
  std::vector<std::thread::id> first;
  for (int step = 0; step < 3; ++step) {
    seen.forward = seen.backward = std::vector<std::thread::id>(kReplicas);
    seen.operator_threads.assign(kReplicas, 0);
    model(rows(kReplicas)).sum().backward();
    EXPECT_EQ(seen.forward, seen.backward);
    EXPECT_EQ(std::set(seen.forward.begin(), seen.forward.end()).size(), kReplicas);
    for (const auto id : seen.forward) EXPECT_NE(id, std::this_thread::get_id());
    EXPECT_EQ(seen.operator_threads, std::vector<int>(kReplicas, 3));
    if (step == 0) first = seen.forward;
    EXPECT_EQ(seen.forward, first) << "the same threads in every step";
  }
}

TEST_F(ReplicaThreadsTest, ReplicasHaveTheCallersGradModeAndTheModelsFrozenParameters) {
  std::vector<bool> modes(2), thawed(2);
  std::mutex mutex;
  const auto expect = [&](bool mode, bool is_thawed) {
    EXPECT_EQ(modes, std::vector<bool>(2, mode));
    EXPECT_EQ(thawed, std::vector<bool>(2, is_thawed));
  };
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    const std::lock_guard lock(mutex);
    modes[row_of(x)] = c10::GradMode::is_enabled();
    thawed[row_of(x)] = replica.weight.requires_grad();
    return x.matmul(replica.weight);
  });
  DataParallel model(net);
  model(rows(2));
  expect(true, true);
  net->weight.set_requires_grad(false);
  const c10::NoGradGuard no_grad;
  model(rows(2));
  expect(false, false);
}

TEST_F(ReplicaThreadsTest, OperatorThreadsAreSharedOut) {
  std::vector<int> threads(2);
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    threads[row_of(x)] = at::get_num_threads();
    return x.matmul(replica.weight);
  });
  for (const auto& [all, each] : {std::pair{6, 3}, {1, 1}}) {
    at::set_num_threads(all);
    DataParallel model(net);
    model(rows(2));
    EXPECT_EQ(threads, std::vector<int>(2, each));
  }
}

/// Replicas compute side by side: each waits, in forward and in backward, until all are there.
TEST_F(ReplicaThreadsTest, ReplicasComputeAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  const auto meet = [&](int until) {
    std::unique_lock lock(mutex);
    ++there;
    changed.notify_all();
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return there >= until; }));
  };
  std::function<void()> in_backward = [&] { meet(4); };
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    meet(2);
    return Notice::apply(x.matmul(replica.weight), &in_backward);
  });
  DataParallel model(net);
  model(rows(2)).sum().backward();
  EXPECT_EQ(there, 4);
}

TEST_F(ReplicaThreadsTest, AReplicaThatThrowsIsNamedAndTheRestGoesOn) {
  int failing = -1;
  bool fails_forward = true;
  std::array<std::function<void()>, 3> in_backward;
  Free net([&](FreeImpl& replica, const at::Tensor& x) {
    const int row = static_cast<int>(row_of(x));
    const auto fail = [&failing, row] {
      if (row >= failing) throw std::out_of_range("row " + std::to_string(row) + " is bad");
    };
    if (failing >= 0 && fails_forward) fail();
    in_backward[row] = [&failing, &fails_forward, fail] {
      if (failing >= 0 && !fails_forward) fail();
    };
    // What comes later in forward comes first in backward: `other` has its gradient when this throws.
    const at::Tensor noticed = Notice::apply(x.matmul(replica.weight), &in_backward[row]);
    return noticed + x.matmul(replica.other);
  });
  DataParallel model(net, {.replicas = 3});
  model(rows(3)).sum().backward();
  const auto gradients = [&] { return at::cat({net->weight.grad(), net->other.grad()}); };
  const at::Tensor expected = gradients();

  for (const bool in_forward : {true, false}) {
    failing = 1;
    fails_forward = in_forward;
    try {
      model(rows(3)).sum().backward();
      FAIL() << "nothing was thrown";
    } catch (const ReplicaError& error) {
      EXPECT_EQ(error.replica(), 1);
      EXPECT_EQ(error.what(),
                std::string("replica 1 of 3, ") + (in_forward ? "forward" : "backward") + ": row 1 is bad");
      EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
    }
    EXPECT_TRUE(at::equal(gradients(), expected)) << "no replica's gradient was added";
    failing = -1;
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
    model(rows(3)).sum().backward();
    EXPECT_TRUE(at::equal(gradients(), expected)) << "nothing is left of the step that failed";
  }
}

TEST_F(ReplicaThreadsTest, OutputsThatCannotBeGatheredAreNamed) {
  Free net([](FreeImpl& replica, const at::Tensor& x) {
    const at::Tensor y = x.matmul(replica.weight);
    return row_of(x) == 0 ? y : y.sum();
  });
  DataParallel model(net);
  EXPECT_THROW(model(rows(2)), ReplicaError);
}

TEST_F(ReplicaThreadsTest, AGraphIsGoneThroughOnceUnlessItIsRetained) {
  Free net([](FreeImpl& replica, const at::Tensor& x) { return x.matmul(replica.weight); });
  DataParallel model(net);
  const at::Tensor loss = model(rows(3)).square().sum();
  loss.backward({}, true);
  const at::Tensor once = net->weight.grad().clone();
  loss.backward();
  EXPECT_TRUE(at::equal(net->weight.grad(), 2 * once));
  EXPECT_ANY_THROW(loss.backward());
  const at::Tensor linear = model(rows(3)).sum();  // whose own graph keeps nothing that could be gone
  linear.backward();
  EXPECT_THROW(linear.backward(), InvalidArgumentError);
  const at::Tensor again = model(rows(3)).sum();
  EXPECT_THROW(torch::autograd::grad({again}, {net->weight}, {}, {}, true), InvalidArgumentError);
}

TEST_F(ReplicaThreadsTest, AParameterThatChangedBeforeBackwardIsFound) {
  Free net([](FreeImpl& replica, const at::Tensor& x) {
    return x.matmul(replica.weight).matmul(replica.other.t());
  });
  DataParallel model(net);
  const at::Tensor loss = model(rows(2)).sum();
  {
    const c10::NoGradGuard no_grad;
    net->other.mul_(2);
  }
  EXPECT_THROW(loss.backward(), ReplicaError);
}

TEST_F(ReplicaThreadsTest, BackwardMayComeWhenTheObjectIsGone) {
  Layers alone = in_doubles(Layers()), net = in_doubles(Layers());
  std::optional<DataParallel<LayersImpl>> model(std::in_place, net);
  at::Tensor loss = (*model)(rows(4)).sum();
  model.reset();
  loss.backward();
  alone->forward(rows(4)).sum().backward();
  expect_same_gradients(*net, *alone);
}

struct TwoImpl : torch::nn::Cloneable<TwoImpl> {
  void reset() override {}
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y) { return x + y; }
};
TORCH_MODULE(Two);

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(ReplicaThreadsTest, WhatCannotBeIsRefusedBeforeAnythingRuns) {
  const auto expect = [](const std::string& said, const char* part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  Layers net;
  expect(refusal([&] { DataParallel(net, {.replicas = 0}); }), "0 replicas");
  expect(refusal([&] { DataParallel(net, {.threads_per_replica = -1}); }), "-1 threads");
  expect(refusal([] { DataParallel(std::shared_ptr<LayersImpl>()); }), "no model");
  Chain chain(1);
  expect(refusal([&] { DataParallel model(chain); }), "Cloneable");
  expect(refusal([&] { DataParallel(chain, {}, [&] { return chain.ptr(); }); }), "a new model");
  expect(refusal([&] { DataParallel(chain, {}, [] { return std::make_shared<ChainImpl>(1, 15); }); }),
         "parameter 0 is 'first.weight' of [15, 8], the model's 'first.weight' of [16, 8]");
  expect(refusal([&] {
           DataParallel(chain, {}, []() -> std::shared_ptr<ChainImpl> { throw std::runtime_error("no"); });
         }),
         "a replica cannot be made: no");

  int calls = 0;
  Free counting([&](FreeImpl&, const at::Tensor& x) {
    ++calls;
    return x;
  });
  DataParallel model(counting);
  expect(refusal([&] { model(at::ones({})); }), "without dimensions");
  expect(refusal([&] { model(at::Tensor()); }), "no argument is a tensor");
  Two two;
  DataParallel pairs(two);
  expect(refusal([&] { pairs(at::ones({2, 3}), at::ones({3, 3})); }), "one is [2, 3], another [3, 3]");
  counting->register_buffer("late", at::ones({1}));
  expect(refusal([&] { model(at::ones({2, 4})); }), "make a new DataParallel");
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace kolo::test::data_parallel
