// recompute(): the same gradients as without, the same dropped elements, and autocast as it was.
#include "kolo/train/recompute.hpp"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/precision.hpp"
#include "train/support/models.hpp"

namespace kolo::test::nn {
namespace {

/// Two layers with dropout between them, whose activations are kept or computed anew.
struct DroppingImpl : torch::nn::Module {
  explicit DroppingImpl(bool anew_) : anew(anew_), first(8, 16), second(16, 4) {
    register_module("first", first);
    register_module("second", second);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto layers = [this](const at::Tensor& input) {
      ++calls;
      return second(at::dropout(at::relu(first(input)), 0.5, true));
    };
    return anew ? recompute(layers, x) : layers(x);
  }

  bool anew;
  int calls = 0;
  torch::nn::Linear first, second;
};
TORCH_MODULE(Dropping);

TEST(ActivationCheckpoint, GivesTheSameGradientsAndDropsTheSameElements) {
  Dropping kept(false), anew(true);
  at::Tensor next_of_kept, next_of_anew;
  for (auto [model, next] : {std::pair(kept, &next_of_kept), std::pair(anew, &next_of_anew)}) {
    torch::manual_seed(5);
    const at::Tensor output = model->forward(numbers(6, 8, 1));  // an input without a gradient
    output.square().sum().backward();
    *next = at::rand({4});
  }
  EXPECT_EQ(kept->calls, 1);
  EXPECT_EQ(anew->calls, 2);
  EXPECT_TRUE(next_of_kept.equal(next_of_anew)) << "random numbers go on where they were";
  for (std::size_t i = 0; i < kept->parameters().size(); ++i)
    EXPECT_TRUE(kept->parameters()[i].grad().equal(anew->parameters()[i].grad())) << i;
}

TEST(ActivationCheckpoint, TakesAndGivesSeveralTensors) {
  const at::Tensor a = numbers(2, 3, 1).set_requires_grad(true), b = numbers(2, 3, 2).set_requires_grad(true),
                   c = numbers(2, 3, 3);
  const auto results = recompute(
      [](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{in[0] * in[1] + in[2], in[0].sin(), in[2] * 2};
      },
      {a, b, c});
  (results[0].sum() + results[1].sum() + results[2].sum()).backward();
  EXPECT_TRUE(at::allclose(a.grad(), b.detach() + a.detach().cos()));
  EXPECT_TRUE(at::allclose(b.grad(), a.detach()));
  EXPECT_FALSE(c.grad().defined());
}

TEST(ActivationCheckpoint, IsComputedAnewInTheFormatOfTheFirstTime) {
  torch::nn::Linear layer(8, 8);
  std::vector<at::ScalarType> seen;
  const auto part = [&](const at::Tensor& x) {
    const at::Tensor output = layer->forward(x);
    seen.push_back(output.scalar_type());
    return output;
  };
  at::Tensor loss;
  {
    const Autocast autocast;
    // The same weight inside and outside: both uses have a gradient.
    const at::Tensor inside = recompute(part, numbers(4, 8, 1)), outside = layer->forward(numbers(4, 8, 2));
    loss = inside.to(at::kFloat).sum() + outside.to(at::kFloat).sum();
  }
  loss.backward();
  EXPECT_EQ(seen, (std::vector{at::kBFloat16, at::kBFloat16}));
  EXPECT_TRUE(at::allclose(layer->bias.grad(), at::full({8}, 8.0f)));
  const at::Tensor expected = (numbers(4, 8, 1) + numbers(4, 8, 2)).sum(0).expand({8, 8});
  EXPECT_TRUE(at::allclose(layer->weight.grad(), expected, 0.02, 0.02));
}

TEST(ActivationCheckpoint, SecondDerivativeIsRefused) {
  const at::Tensor x = numbers(2, 3, 1).set_requires_grad(true);
  const at::Tensor y = recompute([](const at::Tensor& in) { return in.square(); }, x);
  EXPECT_THROW(y.sum().backward({}, c10::nullopt, true), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::nn
