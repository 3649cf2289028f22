// DelayedAverages: descent with the averages of the step before.
#include "kolo/train/local.hpp"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <optional>

#include "kolo/error.hpp"
#include "train/local/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::local {
namespace {

class DelayedAveragesTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// The gradients of one rank, as one vector.
at::Tensor gradient_of(Chain& chain, int step, int rank) {
  for (at::Tensor& parameter : chain->parameters()) parameter.mutable_grad() = at::Tensor();
  squares(chain(input_of(step, rank)), target_of(rank)).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : chain->parameters()) gradients.push_back(parameter.grad());
  return flat_of(gradients);
}

void set(Chain& chain, const at::Tensor& values) {
  const c10::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (at::Tensor& parameter : chain->parameters()) {
    parameter.copy_(values.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
}

TEST_F(DelayedAveragesTest, DescentUsesTheGradientsOfTheStepBefore) {
  constexpr int kSteps = 12;
  constexpr double kRate = 0.05, kMomentum = 0.9;
  for (const int ranks : {1, 3}) {
    run_all(ranks, [&](Communicator& communicator) {
      Chain chain = chain64(1), reference = chain64(1);
      DelayedAverages averages(*chain, communicator);
      torch::optim::SGD optimizer(chain->parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum));
      at::Tensor expected = flat_of(reference->parameters());
      at::Tensor velocity = at::zeros_like(expected);
      std::optional<at::Tensor> late;
      const auto expect_step = [&] {
        if (!late) return;
        velocity = kMomentum * velocity + *late;
        expected = expected - kRate * velocity;
      };
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        squares(chain(input_of(step, communicator.rank())), target_of(communicator.rank())).backward();
        const bool have_arrived = averages.step();
        EXPECT_EQ(have_arrived, step > 0);
        if (have_arrived) optimizer.step();

        set(reference, expected);
        at::Tensor mean = at::zeros_like(expected);
        for (int rank = 0; rank < ranks; ++rank) mean += gradient_of(reference, step, rank) / ranks;
        expect_step();
        late = mean;
        EXPECT_LT(distance(flat_of(chain->parameters()), expected), 1e-12) << step;
      }
      EXPECT_TRUE(averages.finish()) << "the last step's gradients are not lost";
      optimizer.step();
      expect_step();
      EXPECT_LT(distance(flat_of(chain->parameters()), expected), 1e-12);
      EXPECT_TRUE(same_everywhere(communicator, bits(chain->parameters())));
      EXPECT_FALSE(averages.finish());
      EXPECT_EQ(averages.total().steps, static_cast<std::uint64_t>(kSteps));
    });
  }
}

TEST_F(DelayedAveragesTest, WithoutDelayItWouldBeAnotherDescent) {
  run_all(1, [](Communicator& communicator) {
    Chain chain = chain64(1), at_once = chain64(1);
    DelayedAverages averages(*chain, communicator);
    torch::optim::SGD one(chain->parameters(), 0.5), other(at_once->parameters(), 0.5);
    for (int step = 0; step < 4; ++step) {
      train_alone(at_once, other, step, 0);
      one.zero_grad();
      squares(chain(input_of(step, 0)), target_of(0)).backward();
      if (averages.step()) one.step();
    }
    if (averages.finish()) one.step();
    EXPECT_GT(distance(flat_of(chain->parameters()), flat_of(at_once->parameters())), 1e-3);
  });
}

TEST_F(DelayedAveragesTest, AParameterWithoutAGradientCountsAsZero) {
  run_all(2, [](Communicator& communicator) {
    Chain chain(1);
    DelayedAverages averages(*chain, communicator);
    if (communicator.rank() == 0) chain->third->bias.mutable_grad() = at::full({4}, 6.0f);
    averages.step();
    chain->third->bias.mutable_grad() = at::Tensor();
    EXPECT_TRUE(averages.finish());
    EXPECT_TRUE(at::equal(chain->third->bias.grad(), at::full({4}, 3.0f)));
    EXPECT_TRUE(at::equal(chain->first->bias.grad(), at::zeros({16})));
  });
}

TEST_F(DelayedAveragesTest, AveragesThatAreNotFiniteAreSkippedByAllRanks) {
  run_all(3, [](Communicator& communicator) {
    Chain chain(1);
    DelayedAverages averages(*chain, communicator);
    const auto step_with = [&](float value) {
      for (at::Tensor& parameter : chain->parameters())
        parameter.mutable_grad() = at::full_like(parameter.detach(), value);
      return averages.step();
    };
    const float infinite = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(step_with(communicator.rank() == 1 ? infinite : 1));
    EXPECT_FALSE(step_with(1)) << "those of the first step";
    EXPECT_TRUE(step_with(2));
    EXPECT_TRUE(at::equal(chain->third->bias.grad(), at::ones({4})));
    EXPECT_EQ(averages.skipped(), 1u);
    EXPECT_TRUE(averages.finish());
  });
}

TEST_F(DelayedAveragesTest, ASparseGradientIsAnErrorOnAllRanks) {
  for (const auto& error : run_ranks(2, [](Communicator& communicator) {
         Chain chain(1);
         DelayedAverages averages(*chain, communicator);
         if (communicator.rank() == 1) chain->first->weight.mutable_grad() = at::ones({16, 8}).to_sparse();
         averages.step();
         averages.step();
       })) {
    EXPECT_NE(message(error).find("the gradient of 'first.weight' is sparse"), std::string::npos)
        << message(error);
  }
}

}  // namespace
}  // namespace kolo::test::local
