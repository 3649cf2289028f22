// ModelAverager: every H-th step the ranks' models are their mean, or what an outer optimizer makes of it.
#include "kolo/train/local.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "train/local/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::local {
namespace {

constexpr double kRate = 0.05;

class ModelAveragerTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// Adds to each parameter what only this rank and step add; sums over ranks are exact.
void move_by(torch::nn::Module& module, int step, int rank) {
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) parameter.add_(8.0 * step + rank);
}

TEST_F(ModelAveragerTest, EveryPeriodThStepIsTheMeanBitForBit) {
  run_all(4, [](Communicator& communicator) {
    Chain chain(communicator.rank());
    ModelAverager averager(*chain, communicator, {.period = 3});
    EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters()))) << "they begin with rank 0's";
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : chain->parameters()) parameter.fill_(1);
    for (int step = 1; step <= 7; ++step) {
      move_by(*chain, step, communicator.rank());
      const at::Tensor before = everyones(communicator, flat_of(chain->parameters()));
      EXPECT_EQ(averager.step(), step % 3 == 0);
      const at::Tensor after = everyones(communicator, flat_of(chain->parameters()));
      EXPECT_TRUE(at::equal(after, step % 3 == 0 ? before.mean(0, true).expand_as(before) : before)) << step;
    }
    EXPECT_EQ(averager.total().all_reduces, 2u);
    EXPECT_EQ(averager.total().steps, 7u);
  });
}

TEST_F(ModelAveragerTest, WithAPeriodOfOneAndPlainDescentItIsDistributedDataParallel) {
  for (const int ranks : {1, 3, 4}) {
    run_all(ranks, [](Communicator& communicator) {
      DistributedDataParallel parallel(chain64(1), communicator, small_buckets());
      torch::optim::SGD of_parallel(parallel.parameters(), kRate);
      Chain alone = chain64(1);
      ModelAverager averager(*alone, communicator, {.period = 1});
      torch::optim::SGD optimizer(alone->parameters(), kRate);
      for (int step = 0; step < 20; ++step) {
        train_alone(parallel, of_parallel, step, communicator.rank());
        train_alone(alone, optimizer, step, communicator.rank());
        EXPECT_TRUE(averager.step());
      }
      EXPECT_LT(distance(flat_of(parallel.parameters()), flat_of(alone->parameters())), 1e-10);
    });
  }
}

TEST_F(ModelAveragerTest, AnOuterOptimizerStepsFromTheLastAverage) {
  for (const bool nesterov : {false, true}) {
    run_all(3, [&](Communicator& communicator) {
      constexpr double rate = 0.7, momentum = 0.9;
      Chain chain = chain64(1);
      ModelAverager averager(*chain, communicator, {.period = 2, .outer = {{rate, momentum, nesterov}}});
      torch::optim::SGD optimizer(chain->parameters(), kRate);
      at::Tensor outer = flat_of(chain->parameters());
      at::Tensor velocity = at::zeros_like(outer);
      for (int step = 0; step < 10; ++step) {
        train_alone(chain, optimizer, step, communicator.rank());
        const at::Tensor mean = everyones(communicator, flat_of(chain->parameters())).mean(0);
        if (!averager.step()) continue;
        const at::Tensor gradient = outer - mean;
        velocity = momentum * velocity + gradient;
        outer = outer - rate * (nesterov ? gradient + momentum * velocity : velocity);
        EXPECT_LT(distance(flat_of(chain->parameters()), outer), 1e-12) << step;
        EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
      }
    });
  }
}

TEST_F(ModelAveragerTest, AnOuterRateOfOneWithoutMomentumTakesTheAverages) {
  run_all(3, [](Communicator& communicator) {
    Chain plain = chain64(1), outer = chain64(1);
    ModelAverager of_plain(*plain, communicator, {.period = 2});
    ModelAverager of_outer(*outer, communicator,
                           {.period = 2, .outer = {{.learning_rate = 1, .momentum = 0}}});
    torch::optim::SGD one(plain->parameters(), kRate), other(outer->parameters(), kRate);
    for (int step = 0; step < 8; ++step) {
      train_alone(plain, one, step, communicator.rank());
      train_alone(outer, other, step, communicator.rank());
      EXPECT_EQ(of_plain.step(), of_outer.step());
    }
    EXPECT_LT(distance(flat_of(plain->parameters()), flat_of(outer->parameters())), 1e-12);
  });
}

TEST_F(ModelAveragerTest, PostLocalAveragesGradientsFirst) {
  run_all(3, [](Communicator& communicator) {
    constexpr int kAveraged = 4;
    auto options = small_buckets();
    options.hook = make_post_local_sgd_hook({.start_after_steps = kAveraged});
    options.broadcast_buffers = false;
    DistributedDataParallel model(Chain(1), communicator, options);
    ModelAverager averager(model.model(), communicator, {.period = 3, .start_after_steps = kAveraged});
    torch::optim::SGD optimizer(model.parameters(), kRate);
    for (int step = 1; step <= 10; ++step) {
      EXPECT_EQ(averager.is_local(), step > kAveraged);
      optimizer.zero_grad();
      squares(model(numbers(3, 8, step + 10 * communicator.rank())), numbers(3, 4, 1)).backward();
      optimizer.step();
      const bool were_equal = same_everywhere(communicator, bits(model.parameters()));
      EXPECT_EQ(were_equal, step <= kAveraged) << step;
      EXPECT_EQ(averager.step(), step == 4 || step == 7 || step == 10) << step;
    }
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

TEST_F(ModelAveragerTest, TheOuterOptimizerBeginsWhereGradientsWereAveraged) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(1);
    ModelAverager averager(
        *chain, communicator,
        {.period = 1, .start_after_steps = 2, .outer = {{.learning_rate = 0.5, .momentum = 0}}});
    const c10::NoGradGuard no_grad;
    const auto step_from = [&](double value) {
      for (at::Tensor& parameter : chain->parameters()) parameter.fill_(value);
      averager.step();
      return flat_of(chain->parameters())[0].item().toDouble();
    };
    EXPECT_EQ(step_from(1), 1);
    EXPECT_EQ(step_from(8), 8) << "the model from which the outer steps go on";
    EXPECT_EQ(step_from(10), 9);
    EXPECT_EQ(step_from(13), 11);
  });
}

TEST_F(ModelAveragerTest, BuffersOfRealNumbersAreAveragedToo) {
  run_all(2, [](Communicator& communicator) {
    WithBuffers model;
    ModelAverager averager(*model, communicator, {.period = 1});
    const c10::NoGradGuard no_grad;
    model->norm->running_mean.fill_(communicator.rank());
    model->norm->num_batches_tracked.fill_(communicator.rank());
    averager.step();
    EXPECT_TRUE(at::equal(model->norm->running_mean, at::full({4}, 0.5)));
    EXPECT_EQ(model->norm->num_batches_tracked.item().toInt(), communicator.rank());
  });
}

TEST_F(ModelAveragerTest, AnAverageThatIsNotFiniteIsRefusedByAllRanks) {
  run_all(3, [](Communicator& communicator) {
    Chain chain(1);
    ModelAverager averager(*chain, communicator, {.period = 2, .outer = {{.learning_rate = 0.7}}});
    const c10::NoGradGuard no_grad;
    averager.step();
    const int rank = communicator.rank();
    if (rank == 1) chain->second->bias[3] = std::numeric_limits<float>::infinity();
    const auto before = bits(chain->parameters());
    try {
      averager.step();
      ADD_FAILURE() << "rank " << rank << " has averaged";
    } catch (const Error& error) {
      EXPECT_STREQ(
          error.what(),
          "ModelAverager: the average in step 2 is not finite: rank 1: 'second.bias' is not finite [K716]");
      EXPECT_EQ(error.context().peer, 1);
    }
    EXPECT_EQ(bits(chain->parameters()), before);
    fill(*chain, 5);
    averager.step();
    EXPECT_TRUE(averager.step()) << "it goes on";
    EXPECT_TRUE(at::isfinite(flat_of(chain->parameters())).all().item().toBool());

    for (at::Tensor& parameter : chain->parameters()) parameter.fill_(3e38);
    averager.step();
    EXPECT_THROW(averager.step(), Error) << "the sum is too large";
  });
}

}  // namespace
}  // namespace kolo::test::local
