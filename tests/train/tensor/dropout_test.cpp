// Dropout: the same on ranks with the same data, and together what one process drops.
#include "kolo/train/parallel_layers.hpp"

#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "kolo/train/recompute.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

Split split_of(std::int64_t dimension, std::int64_t whole, int rank, int ranks) {
  return {dimension, slice_of(whole, rank, ranks), whole};
}

TEST(SplitDropout, SlicesDropWhatOneProcessDropsOfTheWhole) {
  const at::Tensor x = at::ones({6, 7, 5});
  const at::Tensor whole = split_dropout(x, 0.4, {}, seeded(3));
  EXPECT_TRUE(at::equal(whole, split_dropout(x, 0.4, {}, seeded(3)))) << "replicated: the same everywhere";
  EXPECT_FALSE(at::equal(whole, split_dropout(x, 0.4, {}, seeded(4))));
  for (const std::int64_t dimension : {0, 1, 2, -1}) {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < 3; ++rank) {
      const Split split = split_of(dimension, x.size(dimension), rank, 3);
      parts.push_back(
          split_dropout(x.narrow(dimension, split.slice.begin, split.slice.length), 0.4, split, seeded(3)));
    }
    EXPECT_TRUE(at::equal(at::cat(parts, dimension), whole)) << dimension;
  }
}

TEST(SplitDropout, DropsAsManyAsAskedForAndScalesTheRest) {
  const at::Tensor x = at::ones({200, 500}).set_requires_grad(true);
  const auto generator = seeded(1);
  const at::Tensor y = split_dropout(x, 0.3, {}, generator);
  EXPECT_NEAR((y == 0).to(at::kDouble).mean().item().toDouble(), 0.3, 0.01);
  EXPECT_NEAR(y.mean().item().toDouble(), 1, 0.02);
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach())) << "gradients are dropped alike";
  EXPECT_FALSE(at::equal(y, split_dropout(x, 0.3, {}, generator))) << "the next call drops others";
  EXPECT_TRUE(split_dropout(x, 0, {}, generator).is_same(x));
}

TEST(SplitDropout, PartsThatBackwardComputesAnewDropTheSame) {
  for (const bool is_nested : {false, true}) {
    for (const bool is_given : {false, true}) {
      torch::manual_seed(5);
      const auto generator = is_given ? seeded(5) : at::Generator();
      const auto part = [=](const at::Tensor& z) {
        return split_dropout(split_dropout(z * z, 0.2, {}, generator), 0.4, {}, generator);
      };
      const auto parts = [=](const at::Tensor& z) { return is_nested ? recompute(part, z) : part(z); };
      const at::Tensor x = at::ones({50}).set_requires_grad(true);
      const at::Tensor y = recompute(parts, x);
      const at::Tensor behind = split_dropout(at::ones({50}), 0.5, {}, generator);
      y.sum().backward();
      EXPECT_TRUE(at::equal(x.grad(), 2 * y.detach())) << is_nested << is_given;
      // The generator goes on where it was before backward.
      const at::Tensor next = split_dropout(at::ones({50}), 0.5, {}, generator);
      torch::manual_seed(5);
      const auto again = is_given ? seeded(5) : at::Generator();
      for (int i = 0; i < 2; ++i) split_dropout(at::ones({1}), 0.5, {}, again);
      EXPECT_TRUE(at::equal(split_dropout(at::ones({50}), 0.5, {}, again), behind));
      EXPECT_TRUE(at::equal(split_dropout(at::ones({50}), 0.5, {}, again), next)) << is_nested << is_given;
    }
  }
}

TEST(SplitDropout, RanksOfAGroupDropTheSameWhateverOneHasDrawnAlone) {
  const at::Tensor x = at::ones({6, 7});
  const auto of_one = seeded(3);
  const std::vector<at::Tensor> expected{split_dropout(x, 0.4, {}, of_one),
                                         split_dropout(x, 0.4, {}, of_one)};
  run_all(3, [&](Communicator& group) {
    const auto generator = seeded(3);
    for (const at::Tensor& whole : expected) {
      EXPECT_TRUE(at::equal(split_dropout(x, 0.4, {}, generator, group), whole));
      if (group.rank() == 1) split_dropout(x, 0.4, {}, generator);
    }
    ParallelTransformerLayer layer(
        ParallelTransformerLayerOptions{
            .width = 8, .heads = 4, .dropout = 0.3, .attention_dropout = 0.2, .generator = seeded(3)},
        group);
    for (int i = 0; i < 2; ++i) {
      if (group.rank() == 1) split_dropout(x, 0.4, {}, layer->options.generator);
      const at::Tensor y = layer(at::ones({2, 3, 8}) * at::arange(8));
      y.square().sum().backward();
      EXPECT_TRUE(same_everywhere(group, bits({y.detach()})));
      EXPECT_TRUE(same_everywhere(group, bits({layer->mlp_norm->parameters()[0].grad()})));
    }
  });
}

TEST(SplitDropout, RefusesWhatCannotBe) {
  const at::Tensor x = at::ones({4, 4});
  EXPECT_THROW(split_dropout(x, 1), InvalidArgumentError);
  EXPECT_THROW(split_dropout(x, -0.1), InvalidArgumentError);
  EXPECT_THROW(split_dropout(x, 0.5, split_of(0, 9, 0, 2)), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::tensor
