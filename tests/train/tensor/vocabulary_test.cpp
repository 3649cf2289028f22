// Tables and scores whose vocabulary is divided equal whole ones.
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

constexpr std::int64_t kVocabulary = 11, kFeatures = 5;

at::Tensor words(std::int64_t samples, std::int64_t time) {
  return (at::arange(samples * time, at::kLong) * 7).remainder(kVocabulary).view({samples, time});
}

/// The next word, and some that do not count.
at::Tensor next_words(const at::Tensor& x) {
  return at::roll(x, -1, 1).masked_fill(x == 3, -100);
}

TEST(Vocabulary, EmbeddingAndCrossEntropyEqualWholeOnes) {
  for (const bool sequence : {false, true}) {
    expect_as_one_process(
        {.build = [sequence](Communicator& group) -> Built {
           const auto generator = seeded(5);
           auto both = std::make_shared<torch::nn::Module>("both");
           const auto table = both->register_module(
               "table",
               VocabularyParallelEmbedding(VocabularyParallelEmbeddingOptions{.vocabulary = kVocabulary,
                                                                              .features = kFeatures,
                                                                              .sequence = sequence,
                                                                              .generator = generator},
                                           group));
           const auto head = both->register_module(
               "head", ColumnParallelLinear(ColumnParallelLinearOptions{.in_features = kFeatures,
                                                                        .out_features = kVocabulary,
                                                                        .sequence = sequence,
                                                                        .generator = generator},
                                            group));
           return {both, [=](const at::Tensor&) mutable {
                     const at::Tensor x = words(2, 6);
                     const at::Tensor scores = head->forward(at::tanh(table->forward(x)), 6);
                     return vocabulary_parallel_cross_entropy(scores, next_words(x), kVocabulary, group);
                   }};
         },
         .plain =
             [](const Whole& p, const at::Tensor&) {
               const at::Tensor x = words(2, 6);
               const at::Tensor scores = at::linear(at::tanh(at::embedding(p.at("table.weight"), x)),
                                                    p.at("head.weight"), p.at("head.bias"));
               return torch::nn::functional::cross_entropy(scores.view({-1, kVocabulary}),
                                                           next_words(x).flatten());
             },
         .input = at::zeros({1}, at::kLong),
         .ranks = sequence ? std::vector<int>{3} : std::vector<int>{1, 2, 4}});
  }
}

TEST(Vocabulary, CrossEntropyHoldsForLargeScoresEachPlaceAndSixteenBits) {
  run_all(3, [](Communicator& group) {
    const at::Tensor whole = waves({4, kVocabulary}, 1).mul(1000).set_requires_grad(true);
    const at::Tensor targets = at::arange(4, at::kLong);
    const at::Tensor expected = torch::nn::functional::cross_entropy(
        whole, targets, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    (expected * at::arange(4)).sum().backward();
    const Slice own = slice_of(kVocabulary, group.rank(), 3);
    const at::Tensor part = whole.detach().narrow(1, own.begin, own.length).clone().set_requires_grad(true);
    const at::Tensor losses =
        vocabulary_parallel_cross_entropy(part, targets, kVocabulary, group, {.mean = false});
    EXPECT_LT(relative_distance(losses, expected), 1e-12);
    (losses * at::arange(4)).sum().backward();
    EXPECT_LT(relative_distance(part.grad(), whole.grad().narrow(1, own.begin, own.length)), 1e-12);

    const at::Tensor shorter = (part.detach() / 1000).to(at::kBFloat16).set_requires_grad(true);
    const at::Tensor loss = vocabulary_parallel_cross_entropy(shorter, targets, kVocabulary, group);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    loss.backward();
    EXPECT_EQ(shorter.grad().scalar_type(), at::kBFloat16);
    const at::Tensor small = torch::nn::functional::cross_entropy(whole.detach() / 1000, targets);
    EXPECT_NEAR(loss.item().toDouble(), small.item().toDouble(), 1e-2);
  });
}

TEST(Vocabulary, IndicesOutsideAreRefusedOnAllRanks) {
  run_all(2, [](Communicator& group) {
    VocabularyParallelEmbedding table(
        VocabularyParallelEmbeddingOptions{.vocabulary = 4, .features = 2, .generator = seeded(1)}, group);
    EXPECT_THROW(table(at::full({2}, 4, at::kLong)), InvalidArgumentError);
    EXPECT_THROW(table(at::full({2}, -1, at::kLong)), InvalidArgumentError);
    EXPECT_THROW(table(at::ones({2})), InvalidArgumentError);
    EXPECT_THROW(vocabulary_parallel_cross_entropy(at::ones({3, 2}), at::full({3}, 4, at::kLong), 4, group),
                 InvalidArgumentError);
    EXPECT_THROW(vocabulary_parallel_cross_entropy(at::ones({3, 4}), at::zeros({3}, at::kLong), 4, group),
                 InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::tensor
