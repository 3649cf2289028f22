// Autocast: what is computed in bfloat16, and that no step computes with old weights.
#include "kolo/train/precision.hpp"

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>

#include "libtorch/thread_state.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::precision {
namespace {

TEST(Autocast, ProductsAreBfloat16AndGradientsFloat32) {
  torch::nn::Linear layer(8, 4);
  at::Tensor output;
  {
    const Autocast autocast;
    output = layer->forward(numbers(3, 8, 1));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    {
      const Autocast off(false);
      EXPECT_EQ(layer->forward(numbers(3, 8, 1)).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(layer->forward(numbers(3, 8, 1)).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(layer->forward(numbers(3, 8, 1)).scalar_type(), at::kFloat);
  output.sum().backward();
  EXPECT_EQ(layer->weight.scalar_type(), at::kFloat);
  EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
}

TEST(Autocast, LeavesWhatItFound) {
  const auto state = [] {
    const auto now = train::AutocastState::current();
    return std::tuple(now.is_enabled, now.dtype, now.has_cache);
  };
  const auto before = state();
  EXPECT_THROW(
      {
        const Autocast autocast;
        throw std::runtime_error("out of the scope");
      },
      std::runtime_error);
  EXPECT_EQ(state(), before);
}

TEST(Autocast, EachStepComputesWithTheWeightsOfTheStepBefore) {
  torch::nn::Linear layer(8, 4);
  const Autocast around_the_loop;
  for (const float weight : {1.0f, 2.0f}) {
    at::Tensor output;
    {
      const Autocast autocast;
      output = layer->forward(at::ones({1, 8}));
    }
    const c10::NoGradGuard no_grad;
    const float bias = layer->bias[0].item<float>();
    if (weight == 2.0f) {
      EXPECT_NEAR(output[0][0].item<float>(), 8 + bias, 0.1);
    }
    layer->weight.fill_(weight);
  }
}

TEST(Autocast, RanksLearnAndKeepTheSameBits) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(1), communicator, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    double first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      at::Tensor loss;
      {
        const Autocast autocast;
        loss = squares(model(numbers(16, 8, communicator.rank())).to(at::kFloat), numbers(16, 4, 7));
      }
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.9 * first);
    EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
  });
}

}  // namespace
}  // namespace kolo::test::precision
