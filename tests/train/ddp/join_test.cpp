// join(): ranks that have different amounts of data, and those that have none left.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adam.h>

#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "train/support/normed.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

class Joining : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

using Batches = std::vector<std::int64_t>;  ///< sizes of the batches of one rank

/// All batches of a rank are cut out of the same numbers.
at::Tensor inputs(int rank, std::size_t step, std::int64_t samples) {
  return numbers(samples, 8, 17.0 * rank + static_cast<double>(step)).to(at::kDouble);
}
at::Tensor targets(int rank, std::size_t step, std::int64_t samples) {
  return numbers(samples, 4, 5.0 * rank + 3.0 * static_cast<double>(step)).to(at::kDouble);
}

/// What join() promises, computed in one process: the mean over ranks of mean gradients, by the mode's
/// weights.
std::vector<at::Tensor> expected_parameters(const std::vector<Batches>& batches, JoinMode mode) {
  Chain net(1);
  net->to(at::kDouble);
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  std::size_t steps = 0;
  for (const Batches& own : batches) steps = std::max(steps, own.size());
  for (std::size_t step = 0; step < steps; ++step) {
    double active = 0, samples = 0;
    for (const Batches& own : batches) {
      if (step >= own.size()) continue;
      active += 1;
      samples += static_cast<double>(own[step]);
    }
    optimizer.zero_grad();
    for (std::size_t rank = 0; rank < batches.size(); ++rank) {
      if (step >= batches[rank].size()) continue;
      const std::int64_t n = batches[rank][step];
      double weight = 1 / static_cast<double>(batches.size());
      if (mode == JoinMode::divide_by_active) weight = 1 / active;
      if (mode == JoinMode::weigh_by_samples) weight = static_cast<double>(n) / samples;
      const int r = static_cast<int>(rank);
      squares(net(inputs(r, step, n)), targets(r, step, n)).mul(weight).backward();
    }
    optimizer.step();
  }
  return net->parameters();
}

void expect_as_expected(const std::vector<Batches>& batches, JoinMode mode,
                        DistributedDataParallelOptions options) {
  const auto expected = expected_parameters(batches, mode);
  run_all(static_cast<int>(batches.size()), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const Batches& own = batches[static_cast<std::size_t>(rank)];
    Chain net(1 + rank);
    net->to(at::kDouble);
    DistributedDataParallel model(net, communicator, options);
    torch::optim::Adam optimizer(model.parameters(), 0.01);
    {
      auto join = model.join(mode);
      for (std::size_t step = 0; step < own.size(); ++step) {
        join.step(own[step]);
        optimizer.zero_grad();
        squares(model(inputs(rank, step, own[step])), targets(rank, step, own[step])).backward();
        optimizer.step();
      }
      join.finish([&] { optimizer.step(); });
    }
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::allclose(model.parameters()[i], expected[i], 1e-10, 1e-10)) << "parameter " << i;
    // And after it all ranks train on.
    squares(model(inputs(rank, 0, 2)), targets(rank, 0, 2)).backward();
    EXPECT_TRUE(same_everywhere(communicator, bits({net->first->weight.grad()})));
  });
}

TEST_F(Joining, RanksWithoutDataFollowUntilAllAreDone) {
  for (const JoinMode mode :
       {JoinMode::divide_by_all, JoinMode::divide_by_active, JoinMode::weigh_by_samples}) {
    expect_as_expected({{4, 4, 4}, {4}, {4, 4, 4, 4, 4}}, mode, small_buckets());
    expect_as_expected({{}, {2, 6, 1}, {5, 3}}, mode, small_buckets());  // rank 0 has none from the start
    expect_as_expected({{3, 3}, {3, 3}}, mode, small_buckets());
    expect_as_expected({{}, {}}, mode, small_buckets());
    expect_as_expected({{4, 2}, {3}}, mode, finding_unused());
  }
}

TEST_F(Joining, WhatNoRankUsesIsLeftAloneByARankThatIsDoneToo) {
  for (const bool set_to_none : {false, true}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallel model(Chain(1), communicator, finding_unused());
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      auto join = model.join(JoinMode::divide_by_active);
      for (int step = 0; step < 1 + 2 * communicator.rank(); ++step) {
        join.step(4);
        model.model().zero_grad(set_to_none);
        // The last layer has a part in the first step alone, and a momentum from then on.
        const at::Tensor hidden = at::relu(model->second(at::relu(model->first(numbers(4, 8, step)))));
        const at::Tensor result = step == 0 ? model->third(hidden) : hidden;
        model.prepare_forward();
        const std::vector<at::Tensor> outputs = {result};
        model.prepare_backward(outputs);
        result.square().mean().backward();
        optimizer.step();
      }
      join.finish([&] { optimizer.step(); });
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters()))) << set_to_none;
    });
  }
}

TEST_F(Joining, AHookKeepsWhatItHasOfARankThatIsDone) {
  for (const std::string hook : {"one_bit", "top_k:ratio=0.1", "power_sgd:rank=1", "int8:feedback=1"}) {
    run_all(3, [&](Communicator& communicator) {
      auto options = small_buckets();
      options.hook = make_gradient_hook(hook);
      DistributedDataParallel model(Chain(1), communicator, options);
      torch::optim::SGD optimizer(model.parameters(), 0.05);
      auto join = model.join(JoinMode::divide_by_active);
      for (int step = 0; step < 2 + communicator.rank(); ++step) {
        join.step(4);
        optimizer.zero_grad();
        squares(model(numbers(4, 8, step + communicator.rank())), numbers(4, 4, 1)).backward();
        optimizer.step();
      }
      join.finish([&] { optimizer.step(); });
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters()))) << hook;
    });
  }
}

TEST_F(Joining, GoesWithAccumulationAndAWireFormat) {
  run_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.wire = Wire::bfloat16;
    DistributedDataParallel model(Chain(1), communicator, options);
    torch::optim::SGD optimizer(model.parameters(), 0.05);
    auto join = model.join(JoinMode::weigh_by_samples);
    for (int step = 0; step < 1 + 2 * communicator.rank(); ++step) {
      const auto backward = [&](int pass) {
        squares(model(numbers(4, 8, step + pass)), numbers(4, 4, 1)).div(2).backward();
      };
      join.step(8);  // those of both passes
      optimizer.zero_grad();
      {
        const auto guard = model.no_sync();
        backward(0);
      }
      backward(1);
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); });
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

TEST_F(Joining, BuffersComeFromARankThatStillTrains) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(WithBuffers(), communicator);
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    auto join = model.join(JoinMode::divide_by_active);
    for (int step = 0; step < 1 + 3 * communicator.rank(); ++step) {
      join.step(6);
      optimizer.zero_grad();
      squares(model(numbers(6, 4, step)), numbers(6, 2, 9)).backward();
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); });
    EXPECT_EQ(model->norm->num_batches_tracked.item<std::int64_t>(), 4) << "those of rank 1";
    EXPECT_TRUE(same_everywhere(communicator, bits({model->norm->running_mean})));
  });
}

TEST_F(Joining, SparseTablesAreFollowedToo) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 3).sparse(true)),
                                  communicator);
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    auto join = model.join(JoinMode::weigh_by_samples);
    for (int step = 0; step < 1 + 2 * communicator.rank(); ++step) {
      join.step(5);
      optimizer.zero_grad();
      model(at::arange(5, at::kLong).add(step + communicator.rank())).square().sum().backward();
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); });
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    EXPECT_EQ(model->weight.grad()._nnz(), 5) << "of rank 1 alone";
  });
}

TEST_F(Joining, SynchronizedNormalizationCountsADoneRankAsEmpty) {
  run_all(3, [](Communicator& communicator) {
    DistributedDataParallel model(Normed(8, 4, communicator), communicator, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), 0.05);
    auto join = model.join(JoinMode::weigh_by_samples);
    for (int step = 0; step < 1 + communicator.rank(); ++step) {
      join.step(4);
      optimizer.zero_grad();
      squares(model(numbers(4, 8, step + communicator.rank())), numbers(4, 4, 1)).backward();
      optimizer.step();
    }
    join.finish([&] { optimizer.step(); },
                [&] {
                  optimizer.zero_grad();
                  model(at::empty({0, 8})).sum().backward();
                });
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
    EXPECT_EQ(model->norm->num_batches_tracked.item<std::int64_t>(), 3);
  });
}

TEST_F(Joining, SynchronizedNormalizationWeighsSamplesAsOneProcessDoes) {
  const at::Tensor x = inputs(0, 0, 6), y = targets(0, 0, 6);
  std::vector<at::Tensor> expected;
  run_all(1, [&](Communicator& communicator) {
    Normed net(8, 4, communicator);
    net->to(at::kDouble);
    squares(net(x), y).backward();
    for (const at::Tensor& parameter : net->parameters()) expected.push_back(parameter.grad());
  });
  run_all(3, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Normed net(8, 4, communicator);
    net->to(at::kDouble);
    DistributedDataParallel model(net, communicator, small_buckets());
    auto join = model.join(JoinMode::weigh_by_samples);
    const std::vector<std::int64_t> borders = {0, 2, 6, 6};  // batches of 2, 4 and none
    const auto mine = [&](const at::Tensor& all) {
      return all.slice(0, borders[static_cast<std::size_t>(rank)],
                       borders[static_cast<std::size_t>(rank) + 1]);
    };
    const auto pass = [&] { squares(model(mine(x)), mine(y)).backward(); };
    if (rank < 2) {
      join.step(mine(x).size(0));
      {
        const auto guard = model.no_sync();  // the share counts for all passes of a step
        pass();
      }
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad().zero_();
      pass();
    }
    const auto expect = [&] {
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(at::allclose(model.parameters()[i].grad(), expected[i], 1e-10, 1e-12))
            << "parameter " << i;
    };
    if (rank < 2) expect();
    join.finish(expect, [&] {
      for (int i = 0; i < 2; ++i) {  // as the other ranks, whose norms communicate in both
        std::optional<DistributedDataParallelBase::NoSync> guard;
        if (i == 0) guard.emplace(model);
        model(mine(x)).sum().backward();
      }
    });
  });
}

TEST_F(Joining, AdasumIsThatOfTheRanksWithData) {
  const auto gradient = [](DistributedDataParallel<ChainImpl>& model, int part) {
    squares(model(inputs(part, 0, 4).to(at::kFloat)), targets(part, 0, 4).to(at::kFloat)).backward();
    return model->first->weight.grad().clone();
  };
  const auto with_adasum = [] {
    auto options = small_buckets();
    options.hook = make_gradient_hook("adasum");
    return options;
  };
  at::Tensor expected;
  run_all(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, with_adasum());
    const at::Tensor found = gradient(model, communicator.rank());
    if (communicator.rank() == 0) expected = found;
  });
  for (const JoinMode mode :
       {JoinMode::divide_by_all, JoinMode::divide_by_active, JoinMode::weigh_by_samples}) {
    for (int idle = 0; idle < 3; ++idle) {
      run_all(3, [&](Communicator& communicator) {
        DistributedDataParallel model(Chain(1), communicator, with_adasum());
        auto join = model.join(mode);
        at::Tensor found;
        if (communicator.rank() != idle) {
          join.step(4);
          found = gradient(model, communicator.rank() - (communicator.rank() > idle ? 1 : 0));
        }
        join.finish([&] { found = model->first->weight.grad().clone(); });
        EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-7)) << "rank " << idle << " has none";
      });
    }
  }
}

TEST_F(Joining, WhatIsForgottenIsAnErrorOnAllRanks) {
  const auto contains = [](const std::string& error, const char* expected) {
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  };
  const auto backward = [](auto& model) { squares(model(numbers(4, 8, 1)), numbers(4, 4, 1)).backward(); };
  contains(error_of_all(2,
                        [&](Communicator& communicator) {
                          DistributedDataParallel model(Chain(1), communicator);
                          auto join = model.join(communicator.rank() == 1 ? JoinMode::divide_by_all
                                                                          : JoinMode::divide_by_active);
                        }),
           "join(): rank 1 has divide_by_all where rank 0 has divide_by_active");
  contains(error_of_all(2,
                        [&](Communicator& communicator) {
                          DistributedDataParallel model(Chain(1), communicator);
                          auto join = model.join(JoinMode::divide_by_all);
                          if (communicator.rank() == 0) join.step(4);
                          backward(model);
                        }),
           "rank 1 aborted: join(): call step() before the forward()");
  // A rank that leaves the scope early: the others must not wait for it.
  contains(error_of_all(2,
                        [&](Communicator& communicator) {
                          DistributedDataParallel model(Chain(1), communicator);
                          {
                            auto join = model.join(JoinMode::divide_by_all);
                            join.step(4);
                            backward(model);
                            if (communicator.rank() == 0) join.finish([] {});
                          }
                          backward(model);
                        }),
           "left join() without finish()");
  contains(error_of_all(2,
                        [&](Communicator& communicator) {
                          DistributedDataParallel model(Chain(1), communicator);
                          if (communicator.rank() == 1) {
                            backward(model);
                            return backward(model);
                          }
                          auto join = model.join(JoinMode::divide_by_all);
                        }),
           "rank");
  run_all(1, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator);
    auto join = model.join(JoinMode::divide_by_all);
    EXPECT_THROW(join.step(-1), InvalidArgumentError);
    EXPECT_THROW(join.finish({}), InvalidArgumentError);
    EXPECT_THROW(static_cast<void>(model.join(JoinMode::divide_by_all)), InvalidArgumentError);
    join.step(4);
    EXPECT_THROW(join.step(4), InvalidArgumentError);
    backward(model);
    join.finish([] {});
    EXPECT_THROW(join.step(4), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::ddp
