// What cannot be right is an error on all ranks, when a module is made, that names the odd rank.
#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/mixture_of_experts.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

template <typename Module, typename Options>
void refuse(Communicator& group, const std::string& said, Options options) {
  options.generator = seeded(1);
  expect_refusal(group, said, [&](Communicator& all) { Module(options, all); });
}

TEST(TensorRefusals, WhatDoesNotDivideIsRefused) {
  run_all(4, [](Communicator& group) {
    refuse<ColumnParallelLinear>(
        group, "ColumnParallelLinear: rank 0: 3 out_features cannot be divided among 4 ranks",
        ColumnParallelLinearOptions{.in_features = 8, .out_features = 3});
    refuse<ColumnParallelLinear>(group, "0 in_features: it is 1 or more",
                                 ColumnParallelLinearOptions{.in_features = 0, .out_features = 8});
    refuse<ColumnParallelLinear>(
        group, "10 out_features cannot be divided by 4 features a unit",
        ColumnParallelLinearOptions{.in_features = 8, .out_features = 10, .unit = 4});
    refuse<RowParallelLinear>(group, "2 in_features cannot be divided among 4 ranks",
                              RowParallelLinearOptions{.in_features = 2, .out_features = 8});
    refuse<ParallelAttention>(group, "2 heads cannot be divided among 4 ranks",
                              ParallelAttentionOptions{.width = 8, .heads = 2});
    refuse<ParallelAttention>(group, "10 features (width) cannot be divided by 4 heads",
                              ParallelAttentionOptions{.width = 10, .heads = 4});
    refuse<ParallelTransformerLayer>(group, "a dropout of 1 is not from 0 to below 1",
                                     ParallelTransformerLayerOptions{.width = 8, .heads = 4, .dropout = 1});
    refuse<VocabularyParallelEmbedding>(group, "3 rows (vocabulary) cannot be divided among 4 ranks",
                                        VocabularyParallelEmbeddingOptions{.vocabulary = 3, .features = 2});
    refuse<MixtureOfExperts>(group, "2 experts cannot be divided among 4 ranks",
                             MixtureOfExpertsOptions{.width = 2, .hidden = 2, .experts = 2});
    refuse<MixtureOfExperts>(group, "3 experts a token: it is 1 or 2",
                             MixtureOfExpertsOptions{.width = 2, .hidden = 2, .experts = 4, .chosen = 3});
  });
}

TEST(TensorRefusals, RanksThatDisagreeNameTheOddOne) {
  run_all(4, [](Communicator& group) {
    const bool is_odd = group.rank() == 2;
    refuse<ColumnParallelLinear>(
        group, "rank 2 has in_features 8, out_features 12, bias true",
        ColumnParallelLinearOptions{.in_features = 8, .out_features = is_odd ? 12 : 8});
    refuse<ColumnParallelLinear>(
        group, "rank 2: 3 out_features cannot be divided among 4 ranks",
        ColumnParallelLinearOptions{.in_features = 8, .out_features = is_odd ? 3 : 8});
    refuse<ParallelTransformerLayer>(group, "rank 2 has width 8, heads 8",
                                     ParallelTransformerLayerOptions{.width = 8, .heads = is_odd ? 8 : 4});
    refuse<MixtureOfExperts>(group, "rank 2 has width 2, hidden 2, experts 8",
                             MixtureOfExpertsOptions{.width = 2, .hidden = 2, .experts = is_odd ? 8 : 4});
    refuse<VocabularyParallelEmbedding>(
        group, "rank 2 has vocabulary 9, features 2",
        VocabularyParallelEmbeddingOptions{.vocabulary = is_odd ? 9 : 8, .features = 2});
  });
}

TEST(TensorRefusals, AnotherSeedIsNamed) {
  run_all(3, [](Communicator& group) {
    expect_refusal(group, "rank 1 has a generator of random numbers, for initial values, in the state",
                   [](Communicator& all) {
                     const auto generator = seeded(all.rank() == 1 ? 2 : 1);
                     ParallelMLP(ParallelMLPOptions{.width = 4, .hidden = 8, .generator = generator}, all);
                   });
  });
}

TEST(TensorRefusals, WithoutAGroupThereIsNoModule) {
  EXPECT_THROW(ParallelLayerNorm(ParallelLayerNormOptions{.features = 4}, Communicator()),
               InvalidArgumentError);
  EXPECT_THROW(
      ColumnParallelLinear(ColumnParallelLinearOptions{.in_features = 4, .out_features = 4}, Communicator()),
      InvalidArgumentError);
}

TEST(TensorRefusals, InputsOfAnotherShapeAreRefused) {
  run_all(2, [](Communicator& group) {
    const auto generator = seeded(1);
    ParallelTransformerLayer layer(
        ParallelTransformerLayerOptions{.width = 8, .heads = 2, .generator = generator}, group);
    EXPECT_THROW(layer(at::ones({2, 3, 7})), InvalidArgumentError);
    EXPECT_THROW(layer->attention(at::ones({3, 8})), InvalidArgumentError);
  });
}

TEST(TensorRefusals, ARankThatLeavesEndsTheOthersWithItsName) {
  for (const bool in_backward : {false, true}) {
    const auto errors = run_ranks(3, [&](Communicator& group) {
      const at::Tensor x = at::ones({1, 3, 4, 2}).set_requires_grad(true);
      if (group.rank() == 1 && !in_backward) return;
      const at::Tensor y = ring_attention(x, x, x, group);
      if (group.rank() == 1) return;
      y.sum().backward();
    });
    for (const std::size_t rank : {0, 2}) {
      EXPECT_NE(message(errors[rank]).find("rank 1"), std::string::npos) << message(errors[rank]);
    }
  }
}

}  // namespace
}  // namespace kolo::test::tensor
