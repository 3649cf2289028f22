// PlacedModel: which regions cover a model, which rank counts each, and norms, sums and values over all of
// them.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::placement {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What this region has of a parameter of 4 x 6 elements.
PlacedParameter part(const Region& region, const std::string& name = "x", double gradient = 1) {
  Sizes sizes{4, 6};
  if (region.cut) sizes[static_cast<std::size_t>(region.dimension)] = region.cut->length;
  if (region.range) sizes = {region.range->length, 1};
  at::Tensor tensor = at::zeros(sizes, at::kDouble).set_requires_grad(true);
  tensor.mutable_grad() = at::full(sizes, gradient, at::kDouble);
  return {.name = name, .tensor = tensor, .whole = {4, 6}, .region = region};
}

Region cut(std::int64_t dimension, std::int64_t begin, std::int64_t length) {
  return {.dimension = dimension, .cut = Slice{begin, length}};
}
Region range(std::int64_t begin, std::int64_t length) {
  return {.range = Slice{begin, length}};
}

/// What all ranks throw, one for each region.
std::string refusal(const std::vector<Region>& regions) {
  return error_of_all(static_cast<int>(regions.size()), [&](Communicator& communicator) {
    PlacedModel({part(regions[static_cast<std::size_t>(communicator.rank())])}, communicator);
  });
}

TEST(PlacedModels, HaveRegionsThatCoverEachParameterOnce) {
  EXPECT_EQ(refusal({cut(0, 0, 2), cut(0, 3, 1)}),
            "of 'x', dimension 0, indices 2 to 3 are on no rank [K713]");
  EXPECT_EQ(refusal({cut(1, 0, 2), cut(1, 2, 3)}),
            "of 'x', dimension 1, indices 5 to 6 are on no rank [K713]");
  EXPECT_EQ(refusal({cut(0, 1, 3), cut(0, 0, 2)}),
            "of 'x', dimension 0, indices 1 to 2 are in different regions of ranks 1 and 0 [K713]");
  EXPECT_EQ(refusal({range(0, 10), range(9, 15)}),
            "of 'x', elements 9 to 10 are in different regions of ranks 0 and 1 [K713]");
  EXPECT_EQ(refusal({range(2, 4), range(6, 18)}), "of 'x', elements 0 to 2 are on no rank [K713]");
  EXPECT_EQ(refusal({{}, cut(0, 0, 2)}),
            "of 'x', dimension 0, indices 0 to 2 are in different regions of ranks 1 and 0 [K713]");
  EXPECT_EQ(refusal({cut(0, 0, 2), cut(1, 3, 3)}), "'x' is cut along two dimensions [K713]");
  Region quarter = cut(0, 2, 2);
  quarter.range = Slice{0, 6};
  EXPECT_EQ(refusal({cut(0, 0, 2), quarter}), "of 'x', elements 6 to 12 are on no rank [K713]");
  EXPECT_EQ(refusal({cut(0, 0, 2), cut(0, 2, 3)}),
            "PlacedModel: rank 1: the region of 'x' is not within it [K713]");
  const auto with = [](const auto& change) {
    return error_of_all(2, [&](Communicator& communicator) {
      PlacedParameter one = part({});
      if (communicator.rank() == 1) change(one);
      PlacedModel({one}, communicator);
    });
  };
  const std::string other = with([](PlacedParameter& one) { one.is_trained = false; });
  EXPECT_NE(other.find("'x' has another type"), std::string::npos) << other;
  EXPECT_EQ(with([](PlacedParameter& one) { one.tensor = at::zeros({2}); }),
            "PlacedModel: rank 1: 'x' has 2 elements for a region of 24 [K713]");
}

TEST(PlacedModels, CountWhatSeveralRanksHaveOnce) {
  run_all(4, [](Communicator& communicator) {
    const int rank = communicator.rank(), half = rank % 2;
    // Two stages, of two slices each; a parameter that both slices of a stage have; one that all ranks have.
    const std::string stage = std::to_string(rank / 2);
    const std::vector<PlacedParameter> mine{part(cut(0, 2 * half, 2), "slice " + stage, 1 + rank),
                                            part({}, "norm " + stage, 10 * (1 + rank / 2)),
                                            part({}, "tied", 100)};
    const PlacedModel model(mine, communicator);
    EXPECT_TRUE(model.counts(0));
    EXPECT_EQ(model.counts(1), half == 0);
    EXPECT_EQ(model.counts(2), rank == 0);
    ASSERT_EQ(model.whole().size(), 5u);
    EXPECT_EQ(model.whole()[model.place(0)].name, mine[0].name);
    EXPECT_EQ(model.whole()[model.place(0)].pieces.size(), 2u);
    const double norm = std::sqrt(12 * (1 + 4 + 9 + 16) + 24 * (100 + 400 + 10000));
    EXPECT_EQ(gradient_norm(model), norm);
    EXPECT_EQ(clip_gradients(model, 1e9), norm);
    EXPECT_EQ(mine[0].tensor.grad()[0][0].item().toDouble(), 1 + rank) << "below the limit";
    EXPECT_EQ(clip_gradients(model, norm / 2), norm);
    EXPECT_EQ(mine[0].tensor.grad()[0][0].item().toDouble(), (1 + rank) / 2.0);
    EXPECT_EQ(mine[2].tensor.grad()[3][5].item().toDouble(), 50);
    EXPECT_THROW(clip_gradients(model, 0), InvalidArgumentError);
    EXPECT_THROW(clip_gradients(model, std::numeric_limits<double>::infinity()), InvalidArgumentError);

    std::vector<double> sums{1, 2, 3, 4, 5, 6};
    const SumOverRanks sum = sum_over_ranks(model);
    sum({mine[1].tensor, mine[0].tensor, mine[2].tensor}, sums);  // in the order of an optimizer's groups
    EXPECT_EQ(sums, (std::vector<double>{1, 2, 6, 8, 5, 6}));
    EXPECT_THROW(sum({rank == 3 ? at::zeros({2}) : mine[0].tensor}, sums), InvalidArgumentError)
        << "all ranks";
  });
}

TEST(PlacedModels, SeeAnOverflowOnAnyRank) {
  run_all(3, [](Communicator& communicator) {
    for (int odd = 0; odd < 3; ++odd) {
      // Shards, or slices.
      const std::int64_t rank = communicator.rank();
      const std::vector<PlacedParameter> mine{part(odd == 0 ? range(8 * rank, 8) : cut(1, 2 * rank, 2))};
      const PlacedModel model(mine, communicator);
      EXPECT_TRUE(gradients_are_finite(model));
      if (rank == odd) mine[0].tensor.mutable_grad()[3][0] = std::nan("");
      EXPECT_FALSE(gradients_are_finite(model));
      EXPECT_TRUE(std::isnan(clip_gradients(model, 1)));
    }
  });
}

TEST(PlacedModels, TellAllRanksWhereNoNormCanBeTaken) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    PlacedParameter one = part({}, std::to_string(communicator.rank()));
    if (communicator.rank() == 1) {
      one.tensor = at::zeros({4, 6}, at::kComplexFloat).set_requires_grad(true);
      one.tensor.mutable_grad() = at::zeros({4, 6}, at::kComplexFloat);
    }
    gradient_norm(PlacedModel({one}, communicator));
  });
  EXPECT_NE(message(errors[0]).find("rank 1 aborted: norms are taken of real numbers"), std::string::npos)
      << message(errors[0]);
  EXPECT_EQ(message(errors[1]), "norms are taken of real numbers [K702]");
}

TEST(PlacedModels, OfStagesAndShardsSeeAnOverflowToo) {
  run_all(2, [](Communicator& communicator) {
    ShardedDataParallel shards(Chain(1), communicator, {});
    PipelineParallel stages({torch::nn::Linear(4, 4)}, squares, communicator, {});
    for (const auto& parameters : {shards.parameters(), stages.parameters()}) {
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::zeros_like(parameter);
    }
    EXPECT_TRUE(gradients_are_finite(shards.placed()) && gradients_are_finite(stages.placed()));
    if (communicator.rank() == 1) shards.parameters()[0].mutable_grad().view(-1)[0] = INFINITY;
    if (communicator.rank() == 0) stages.parameters()[0].mutable_grad().view(-1)[0] = INFINITY;
    EXPECT_FALSE(gradients_are_finite(shards.placed()));
    EXPECT_FALSE(gradients_are_finite(stages.placed()));
  });
}

TEST(PlacedModels, GiveAndTakeWholeValuesWhateverTheRanks) {
  // Slices of columns, of which each has two ranges, of a parameter whose first dimension lies innermost.
  const at::Tensor values = at::arange(24, at::kDouble).view({4, 6});
  run_all(4, [&](Communicator& communicator) {
    const bool is_left = communicator.rank() < 2, is_upper = communicator.rank() % 2 == 0;
    Region region = is_left ? cut(1, 0, 2) : cut(1, 2, 4);
    const std::int64_t elements = 4 * region.cut->length, first = elements / 2 - 1;
    region.range = is_upper ? Slice{0, first} : Slice{first, elements - first};
    PlacedParameter one = part(region);
    one.order = {1, 0};
    load_whole_parameters({one}, {{"x", values}});
    if (is_upper) {
      EXPECT_EQ(one.tensor[1][0].item().toDouble(), is_left ? 6 : 8) << "the next row of its first column";
    }
    const PlacedModel model({one}, communicator);
    EXPECT_TRUE(at::equal(gather_whole_parameters(model).at("x"), values));
    EXPECT_THROW(load_whole_parameters({one}, {{"y", values}}), InvalidArgumentError);
    EXPECT_THROW(load_whole_parameters({one}, {{"x", values.t()}}), InvalidArgumentError);
  });
}

TEST(PlacedModels, OfStagesWithEqualNamesTellThemApart) {
  run_all(2, [](Communicator& communicator) {
    const PipelineParallel stages({torch::nn::Linear(4, 4)}, squares, communicator, {});
    ASSERT_EQ(stages.placed().whole().size(), 4u);
    EXPECT_EQ(stages.placed().whole()[0].name, "0.weight");
    EXPECT_EQ(stages.placed().whole()[3].name, "1.bias");
    const PipelineParallel tied({torch::nn::Linear(4, 4)}, squares, communicator,
                                {.tie = {{"weight", "weight"}}});
    ASSERT_EQ(tied.placed().whole().size(), 3u) << "the weight counts once";
    EXPECT_EQ(tied.placed().counts(0), communicator.rank() == 0);
  });
}

TEST(PlacedModels, OfPartsOfAModelWantItsHolders) {
  run_all(4, [](Communicator& communicator) {
    Communicator shards = communicator.split(communicator.rank() / 2),
                 pipe = communicator.split(communicator.rank() % 2);
    torch::nn::Linear layer(4, 4);
    fill(*layer, pipe.rank());
    auto sharded = std::make_shared<ShardedDataParallel<torch::nn::LinearImpl>>(layer, shards);
    const PipelineStage stage(layer.ptr(),
                              [sharded](const at::Tensor& x) -> at::Tensor { return (*sharded)(x); });
    const PipelineParallel alone({stage}, squares, pipe, {});
    try {
      alone.placed();
      ADD_FAILURE() << "of each shard the other ranks' elements are missing";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("set the option `holders` to the ranks that have all parts: "),
                std::string::npos);
    }
    const PipelineParallel all({stage}, squares, pipe, {.holders = communicator});
    EXPECT_EQ(all.placed().whole().size(), 4u);
    EXPECT_TRUE(all.placed().parameters()[0].tensor.is_same(sharded->parameters()[0]));
  });
}

}  // namespace
}  // namespace kolo::test::placement
