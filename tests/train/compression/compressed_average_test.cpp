// What a rank without data does as the owner of a part, and states that a hook refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

constexpr std::size_t kPart = 4096;  // whole blocks of each format

/// Two ranks average one parameter of two parts, of which each owns one. Rank 1 has no data from
/// `silent_from` on. Returns what rank 1 keeps after each step.
std::vector<std::vector<float>> kept_by_rank_1(const std::string& hook_name, int steps, int silent_from) {
  std::vector<std::vector<float>> kept;
  expect_ranks({.size = 2}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(hook_name);
    const std::vector<GradientPart> parts = {{"x", {2, kPart}, 0, 2 * kPart}};
    for (int step = 0; step < steps; ++step) {
      std::vector<float> gradients(2 * kPart);
      GradientBucket bucket;
      bucket.gradients = gradients;
      bucket.parts = parts;
      bucket.contributes = communicator.rank() == 0 || step < silent_from;
      for (std::size_t i = 0; bucket.contributes && i < gradients.size(); ++i)
        gradients[i] = gradient(communicator.rank(), 0, 0, i);
      hook->average(bucket, communicator);
      hook->end_step(true);
      if (communicator.rank() == 1) kept.push_back(held_back(hook->state(), "x"));
    }
  });
  return kept;
}

TEST(CompressedAverage, ARankWithoutDataKeepsWhatItsOwnGradientsHaveLeft) {
  for (const char* hook : {"one_bit", "int8:feedback=1", "float8:feedback=1"}) {
    const auto kept = kept_by_rank_1(hook, 5, 2);
    ASSERT_EQ(kept.size(), 5u);
    const auto of_other_part = [](const std::vector<float>& all) { return std::span(all).first(kPart); };
    EXPECT_TRUE(same_bits(of_other_part(kept[4]), of_other_part(kept[1]))) << hook;
    EXPECT_FALSE(same_bits(of_other_part(kept[1]), of_other_part(kept[0]))) << hook;
  }
}

TEST(CompressedAverage, ARankWithoutDataCorrectsTheAveragesOfItsPart) {
  // Without that, what the averages leave out adds up from step to step, here to 40.
  const auto kept = kept_by_rank_1("one_bit", 100, 0);
  for (const float left_out : kept.back())
    ASSERT_LT(std::abs(left_out), 10) << "gradients are between -1 and 1";
}

/// What rank `of` has in its part of `counts` after steps with the same gradients, added up. `change` may
/// spoil a rank's gradients.
std::vector<float> scattered(const std::string& hook_name, const std::vector<std::uint64_t>& counts, int of,
                             int steps, const std::function<void(int rank, std::span<float>)>& change = {}) {
  const auto ends = [&](int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
  };
  const auto ranks = static_cast<int>(counts.size());
  std::vector<float> result(counts[static_cast<std::size_t>(of)]);
  expect_ranks({.size = ranks}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(hook_name);
    const std::uint64_t all = ends(ranks);
    const std::vector<GradientPart> parts = {{"x", {5}, 0, 5},
                                             {"y", {static_cast<std::int64_t>(all) - 5}, 5, all - 5}};
    for (int step = 0; step < steps; ++step) {
      std::vector<float> gradients(all);
      for (std::size_t i = 0; i < all; ++i)  // exact in each format that rounds
        gradients[i] = static_cast<float>(communicator.rank() + 1) * static_cast<float>(i % 4);
      if (change) change(communicator.rank(), gradients);
      hook->scatter({.gradients = gradients, .parts = parts}, counts, communicator);
      hook->end_step(true);
      if (communicator.rank() != of) continue;
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += gradients[ends(of) + i];
    }
  });
  return result;
}

TEST(CompressedAverage, ScattersToEachRankTheAveragesOfItsPart) {
  for (const std::vector<std::uint64_t>& counts :
       {std::vector<std::uint64_t>{7}, {6, 5}, {0, 9, 4}, {3000, 1, 2999, 3000}}) {
    const float mean = (1 + static_cast<float>(counts.size())) / 2;
    for (int rank = 0; std::cmp_less(rank, counts.size()); ++rank) {
      const std::size_t begin = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
      for (const char* hook : {"float16", "bfloat16"}) {
        const auto got = scattered(hook, counts, rank, 1);
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i], mean * static_cast<float>((begin + i) % 4)) << hook << ' ' << rank << ' ' << i;
      }
      // What is left out in a step is in a later one.
      constexpr int kSteps = 60;
      for (const char* hook : {"int8:feedback=1", "float8:feedback=1", "one_bit"}) {
        const auto got = scattered(hook, counts, rank, kSteps);
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i] / kSteps, mean * static_cast<float>((begin + i) % 4), 0.6)
              << hook << ' ' << rank << ' ' << i;
      }
    }
  }
}

TEST(CompressedAverage, ScattersNoFiniteAverageOfGradientsThatAreNot) {
  for (const char* hook : {"float16", "bfloat16", "int8", "float8", "one_bit"}) {
    const auto got = scattered(hook, {8, 8}, 0, 1, [](int rank, std::span<float> gradients) {
      if (rank == 1) gradients[3] = INFINITY;
    });
    EXPECT_FALSE(std::ranges::all_of(got, [](float value) { return std::isfinite(value); })) << hook;
  }
}

TEST(CompressedAverage, OtherHooksRefuseToScatter) {
  expect_ranks({.size = 2}, [](Communicator& communicator) {
    for (const char* name : {"top_k", "power_sgd", "adasum", "post_local_sgd"}) {
      const auto hook = make_gradient_hook(name);
      EXPECT_FALSE(hook->can_scatter()) << name;
      EXPECT_THROW(hook->scatter({}, {}, communicator), InvalidArgumentError) << name;
    }
  });
}

TEST(HookStates, OfHooksWithFeedbackAreRefusedByHooksWithout) {
  const HookState state = {{"left out of p0", {1}}};
  for (const char* hook : {"float16", "bfloat16", "int8", "float8", "one_bit:feedback=0"}) {
    EXPECT_THROW(make_gradient_hook(hook)->set_state(state), InvalidArgumentError) << hook;
    make_gradient_hook(hook)->set_state({});
  }
}

TEST(HookStates, OfParametersWithAnotherSizeAreRefused) {
  const std::vector<GradientPart> parts = {{"x", {64, 50}, 0, 3200}};
  for (const char* name : {"one_bit", "int8:feedback=1"}) {
    for (const std::size_t count : {0u, 3199u, 3201u}) {
      const auto hook = make_gradient_hook(name);
      hook->set_state({{"left out of x", std::vector<float>(count)}});
      EXPECT_THROW(hook->check(parts), InvalidArgumentError) << name << ' ' << count;
    }
    const auto hook = make_gradient_hook(name);
    hook->set_state({{"left out of x", std::vector<float>(3200)}});
    hook->check(parts);
  }
  // A state that was set since then.
  expect_ranks({.size = 2}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook("one_bit");
    hook->set_state({{"left out of x", {}}});
    std::vector<float> gradients(3200);
    GradientBucket bucket;
    bucket.gradients = gradients;
    bucket.parts = parts;
    EXPECT_THROW(hook->average(bucket, communicator), InvalidArgumentError);
  });
}

/// Keeps nothing, and so says nothing of states.
class Stateless : public GradientHook {
  std::string describe() const override { return "stateless"; }
  void average(const GradientBucket&, Communicator&) override {}
  void end_step(bool) override {}
};

TEST(HookStates, AreRefusedByHooksThatKeepNothing) {
  Stateless hook;
  GradientHook& base = hook;
  base.set_state({});
  EXPECT_THROW(base.set_state({{"left out of x", {1}}}), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test
