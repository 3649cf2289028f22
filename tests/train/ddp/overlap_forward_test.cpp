// Averages that the next forward waits for, and optimizers that make their steps in it.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>

#include <barrier>
#include <sstream>
#include <thread>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/tensor.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

class OverlapForward : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

std::unique_ptr<torch::optim::Optimizer> make_sgd(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.2).momentum(0.9));
}
std::unique_ptr<torch::optim::Optimizer> make_adam(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
}

DistributedDataParallelOptions in_forward(const OptimizerFactory& factory = make_sgd) {
  auto options = small_buckets();
  options.overlap_forward = factory;
  return options;
}

at::Tensor loss_of(DistributedDataParallel<ChainImpl>& model, int rank, int step) {
  return squares(model(numbers(6, 8, 10 * rank + step)), numbers(6, 4, 200 + step));
}

void set_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) {
    if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&group.options())) sgd->lr(rate);
    if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&group.options())) adam->lr(rate);
  }
}

/// Parameters after some steps, under a schedule and now and then with two batches a step.
std::vector<at::Tensor> trained(int ranks, const OptimizerFactory& factory, bool overlaps, int steps) {
  std::vector<at::Tensor> result;
  run_all(ranks, [&](Communicator& communicator) {
    auto options = small_buckets();
    if (overlaps) options.overlap_forward = factory;
    DistributedDataParallel model(Chain(communicator.rank()), communicator, options);
    const auto own = overlaps ? nullptr : factory(model.parameters());
    for (int step = 0; step < steps; ++step) {
      const double rate = 0.01 / (1 + step);
      if (own) {
        own->zero_grad();
        set_rate(*own, rate);
      } else {
        model.change_optimizers([rate](torch::optim::Optimizer& optimizer) { set_rate(optimizer, rate); });
      }
      if (step % 3 == 2) {
        const auto guard = model.no_sync();
        loss_of(model, communicator.rank(), step + 1000).backward();
      }
      loss_of(model, communicator.rank(), step).backward();
      if (own) own->step();
    }
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    EXPECT_EQ(model.total().steps, static_cast<std::uint64_t>(steps));
    if (communicator.rank() == 0) result = model.parameters();
  });
  return result;
}

TEST_F(OverlapForward, TrainsAsOneOptimizerAfterBackwardDoes) {
  for (const auto& factory : {make_sgd, make_adam}) {
    for (const int ranks : {2, 3}) {
      const auto plain = trained(ranks, factory, false, 12), overlapped = trained(ranks, factory, true, 12);
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::allclose(overlapped[i], plain[i], 1e-5, 1e-6)) << ranks << " ranks, parameter " << i;
    }
  }
}

TEST_F(OverlapForward, BackwardReturnsWhileAnotherRankHasNotBegun) {
  std::barrier after_the_first(2);
  run_all(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, in_forward());
    const at::Tensor loss = loss_of(model, communicator.rank(), 0);
    if (communicator.rank() == 1) after_the_first.arrive_and_wait();
    loss.backward();
    if (communicator.rank() == 0) after_the_first.arrive_and_wait();
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

/// Ways to use a parameter of the net after backward(), each of which has to see the step.
struct SeenUse {
  const char* name;
  std::function<at::Tensor(Chain& net, const at::Tensor& view)> read;
};

TEST_F(OverlapForward, WhateverUsesAParameterSeesTheStep) {
  const auto elsewhere = [](const std::function<at::Tensor()>& read) {
    at::Tensor result;
    std::thread([&] { result = read(); }).join();
    return result;
  };
  const std::vector<SeenUse> uses = {
      {"a view", [](Chain& net, const at::Tensor&) { return net->second->weight.t().clone(); }},
      {"detach", [](Chain& net, const at::Tensor&) { return net->second->weight.detach().t().clone(); }},
      {"a view from before", [](Chain&, const at::Tensor& view) { return view.clone(); }},
      {"a list", [](Chain& net, const at::Tensor&) { return at::cat({net->second->weight}).t(); }},
      {"another thread",
       [&](Chain& net, const at::Tensor&) {
         return elsewhere([&] { return net->second->weight.t().clone(); });
       }},
      {"inference",
       [](Chain& net, const at::Tensor&) {
         const c10::InferenceMode guard;
         return net->second->weight.t().clone();
       }},
      {"a buffer of kolo",
       [](Chain& net, const at::Tensor&) {
         const Buffer buffer = buffer_of(net->second->weight);
         return at::from_blob(buffer.data, {16, 16}, at::kFloat).clone().t();
       }},
  };
  std::vector<at::Tensor> stepped;
  run_all(2, [&](Communicator& communicator) {
    Chain net(0);
    DistributedDataParallel model(net, communicator, small_buckets());
    const auto optimizer = make_sgd(model.parameters());
    for (int step = 0; step < 2; ++step) {
      optimizer->zero_grad();
      loss_of(model, communicator.rank(), step).backward();
      optimizer->step();
      if (communicator.rank() == 0) stepped.push_back(net->second->weight.detach().t().clone());
    }
  });
  for (const SeenUse& use : uses) {
    run_all(2, [&](Communicator& communicator) {
      Chain net(0);
      DistributedDataParallel model(net, communicator, in_forward());
      const at::Tensor view = net->second->weight.detach().t();
      for (int step = 0; step < 2; ++step) {
        const at::Tensor loss = loss_of(model, communicator.rank(), step);
        loss.backward();
        EXPECT_TRUE(at::allclose(use.read(net, view), stepped[static_cast<std::size_t>(step)], 1e-5, 1e-6))
            << use.name << " in step " << step;
      }
    });
  }
}

TEST_F(OverlapForward, AnOptimizerBesideItFindsNothingToDo) {
  run_all(2, [](Communicator& communicator) {
    Chain net(0), same(0);
    DistributedDataParallel model(net, communicator, in_forward());
    DistributedDataParallel alone(same, communicator, in_forward());
    torch::optim::SGD beside(net->parameters(), 0.5);
    for (int step = 0; step < 3; ++step) {
      loss_of(model, communicator.rank(), step).backward();
      for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
      beside.step();
      beside.zero_grad();
      loss_of(alone, communicator.rank(), step).backward();
    }
    EXPECT_EQ(bits(model.parameters()), bits(alone.parameters()));
    EXPECT_THROW(model.check(beside), InvalidArgumentError);
    EXPECT_THROW(model.set_loss_scale(2), InvalidArgumentError);
    EXPECT_THROW(clip_gradients(net->parameters(), 1), InvalidArgumentError);
  });
}

TEST_F(OverlapForward, WhatIsLoadedAfterBackwardIsNotSteppedAnyMore) {
  run_all(2, [](Communicator& communicator) {
    const Chain other(5);
    std::stringstream file;
    torch::save(other, file);
    Chain net(0);
    DistributedDataParallel model(net, communicator, in_forward());
    loss_of(model, communicator.rank(), 0).backward();
    torch::load(net, file);
    EXPECT_EQ(bits(net->parameters()), bits(other->parameters()));
    EXPECT_EQ(bits(model.parameters()), bits(other->parameters()));
    loss_of(model, communicator.rank(), 1).backward();
    EXPECT_NE(bits(model.parameters()), bits(other->parameters()));
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

TEST_F(OverlapForward, BroadcastsAndTheEndMakeTheStep) {
  const auto two = trained(2, make_sgd, true, 1);
  run_all(2, [&](Communicator& communicator) {
    Chain net(0);
    {
      DistributedDataParallel model(net, communicator, in_forward());
      const double rate = 0.01;
      model.change_optimizers([rate](torch::optim::Optimizer& optimizer) { set_rate(optimizer, rate); });
      loss_of(model, communicator.rank(), 0).backward();
      if (communicator.rank() == 0) net->first->weight.sum();
      broadcast(*net, communicator);
      EXPECT_TRUE(same_everywhere(communicator, bits(net->parameters())));
      EXPECT_TRUE(at::allclose(net->third->weight, two[4], 1e-5, 1e-6));
      loss_of(model, communicator.rank(), 1).backward();
      if (communicator.rank() == 0) net->first->weight.sum();
    }
    const std::vector<std::uint8_t> before = bits(net->parameters());
    EXPECT_TRUE(same_everywhere(communicator, before));
    {
      DistributedDataParallel model(net, communicator, in_forward());
      loss_of(model, communicator.rank(), 2).backward();
      if (communicator.rank() == 0) net->first->weight.sum();
      DistributedDataParallel next(net, communicator, in_forward());  // takes the place of the first
      EXPECT_TRUE(same_everywhere(communicator, bits(next.parameters())));
    }
    EXPECT_NE(bits(net->parameters()), before);
  });
}

TEST_F(OverlapForward, TheNextForwardNamesARankThatHasDied) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, in_forward());
    loss_of(model, communicator.rank(), 0).backward();
    const at::Tensor loss = loss_of(model, communicator.rank(), 1);
    if (communicator.rank() == 2) throw std::runtime_error("dies");
    loss.backward();
    EXPECT_NE(message([&] {
                try {
                  loss_of(model, communicator.rank(), 2);
                } catch (...) {
                  return std::current_exception();
                }
                return std::exception_ptr();
              }())
                  .find("rank 2"),
              std::string::npos);
    EXPECT_THROW(model.parameters(), Error);
  });
  EXPECT_EQ(message(errors[0]), "");
  EXPECT_EQ(message(errors[1]), "");
}

TEST_F(OverlapForward, WhatDoesNotGoTogetherIsRefused) {
  run_all(1, [](Communicator& communicator) {
    const auto error_with = [&](const std::function<void(DistributedDataParallelOptions&)>& change) {
      auto options = in_forward();
      change(options);
      try {
        DistributedDataParallel model(Chain(0), communicator, options);
      } catch (const InvalidArgumentError& error) {
        const std::string who = "DistributedDataParallel: rank 0: ";
        EXPECT_EQ(std::string(error.what()).find(who), 0u) << error.what();
        return std::string(error.what()).substr(who.size());
      }
      return std::string("no error");
    };
    using Options = DistributedDataParallelOptions;
    EXPECT_EQ(error_with([](Options& options) { options.hook = make_gradient_hook("int8"); }),
              "the options hook and overlap_forward exclude each other [K707]");
    EXPECT_EQ(error_with([](Options& options) { options.find_unused_parameters = true; }),
              "the options find_unused_parameters and overlap_forward exclude each other [K707]");
    EXPECT_EQ(error_with([](Options& options) { options.sparse_parameters = {"first.weight"}; }),
              "'first.weight' has sparse gradients, which exclude the option overlap_forward [K712]");
    EXPECT_EQ(
        error_with([](Options& options) { options.overlap_forward = [](const auto&) { return nullptr; }; }),
        "overlap_forward gave no optimizer [K707]");
    EXPECT_EQ(error_with([](Options& options) {
                options.overlap_forward = [](const auto&) { return make_sgd({at::zeros({1})}); };
              }),
              "overlap_forward gave an optimizer of other parameters than it was called with [K707]");
  });
}

}  // namespace
}  // namespace kolo::test::ddp
