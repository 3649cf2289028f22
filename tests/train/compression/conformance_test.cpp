// What every gradient hook promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "train/compression/replicas.hpp"
#include "transport/transport.hpp"

namespace kolo::test {
namespace {

std::string test_name(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
}

class HookOver : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {
 protected:
  Script script() const {
    const auto& [hook, transport, ranks] = GetParam();
    return {.hook = hook, .transport = transport, .ranks = ranks};
  }
};

void expect_same_bits_on_all_ranks(const std::vector<Outputs>& all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (std::size_t step = 0; step < all[0].averages.size(); ++step) {
      for (std::size_t p = 0; p < all[0].averages[step].size(); ++p) {
        EXPECT_TRUE(same_bits(all[rank].averages[step][p], all[0].averages[step][p]))
            << "rank " << rank << ", step " << step << ", parameter " << p;
      }
    }
  }
}

TEST_P(HookOver, AllRanksHoldTheSameBits) {
  expect_same_bits_on_all_ranks(run(script()));
}

INSTANTIATE_TEST_SUITE_P(Compression, HookOver,
                         testing::Combine(testing::ValuesIn(tested_hooks()),
                                          testing::ValuesIn(transport::transport_names()),
                                          testing::Values(2, 3)),
                         [](const auto& info) {
                           return test_name(std::get<0>(info.param)) + "_over_" + std::get<1>(info.param) +
                                  "_" + std::to_string(std::get<2>(info.param));
                         });

bool averages(const std::string& hook) {
  return hook != "adasum";
}
bool has_momentum(const std::string& hook) {
  return hook.find("momentum=0.9") != std::string::npos;
}
bool has_feedback(const std::string& hook) {
  return hook.find("feedback=1") != std::string::npos || hook.starts_with("one_bit") ||
         hook.starts_with("power_sgd") || (hook.starts_with("top_k") && !has_momentum(hook));
}

class Hook : public testing::TestWithParam<std::string> {
 protected:
  Script script() const { return {.hook = GetParam()}; }
};
class HookThatAverages : public Hook {};
class HookWithFeedback : public Hook {};
class HookWithoutFeedback : public Hook {};
class HookOfUnboundedRange : public Hook {};

TEST_P(Hook, HoldsTheSameBitsWithAnyNumberOfRanks) {
  for (const int ranks : {1, 4, 5}) {
    Script what = script();
    what.ranks = ranks;
    what.steps = 3;
    expect_same_bits_on_all_ranks(run(what));
  }
}

/// The sum over all steps and ranks of the gradients is what was applied and what is still held back.
/// `is_silent` tells the ranks whose gradients `what.adjust` makes zero.
void expect_conservation(
    const Script& what, double tolerance,
    const std::function<bool(int rank, int step)>& is_silent = [](int, int) { return false; }) {
  const auto all = run(what);
  const auto known = parameters();
  for (std::size_t p = 0; p < known.size(); ++p) {
    for (std::size_t i = 0; i < known[p].count; ++i) {
      double given = 0, applied = 0, held = 0;
      for (int step = 0; step < what.steps; ++step) {
        applied += what.ranks * static_cast<double>(all[0].averages[static_cast<std::size_t>(step)][p][i]);
        for (int rank = 0; rank < what.ranks; ++rank)
          given += is_silent(rank, step) ? 0 : static_cast<double>(gradient(rank, step, p, i));
      }
      for (const Outputs& outputs : all) {
        if (const auto values = held_back(outputs.state, known[p].name); !values.empty())
          held += static_cast<double>(values[i]);
      }
      ASSERT_NEAR(applied + held, given, tolerance) << "parameter " << p << ", element " << i;
    }
  }
}

TEST_P(HookWithFeedback, LosesNothing) {
  Script what = script();
  what.steps = 6;
  expect_conservation(what, 2e-4);
}

TEST_P(HookWithFeedback, LosesNothingWhereARankHasNoMoreData) {
  const auto is_silent = [](int rank, int step) { return rank == 1 && step >= 2; };
  Script what = script();
  what.steps = 6;
  what.adjust = [&](int rank, int step, GradientBucket& bucket) {
    if (!is_silent(rank, step)) return;
    bucket.contributes = false;
    std::ranges::fill(bucket.gradients, 0.0f);
  };
  expect_conservation(what, 2e-4, is_silent);
}

TEST_P(HookWithoutFeedback, LosesNoMoreThanItRounds) {
  Script what = script();
  what.steps = 6;
  // An eighth of a number at most, half of it each way.
  expect_conservation(what, 0.07 * what.steps * what.ranks);
}

TEST_P(HookWithFeedback, LosesNothingWhereParametersMoveToOtherBuckets) {
  Script what = script();
  what.steps = 6;
  what.buckets = [](int step) {
    std::vector<std::vector<std::size_t>> buckets(step < 2 ? 2 : 4);
    for (std::size_t p = 0; p < parameters().size(); ++p)
      buckets[(p + (step < 4 ? 0 : 1)) % buckets.size()].push_back(p);
    if (step % 2 == 1) std::ranges::reverse(buckets[0]);
    return buckets;
  };
  expect_conservation(what, 2e-4);
}

TEST_P(Hook, MakesInfinitiesAndNaNsEverybodysAndForgetsTheStep) {
  const int bad_step = 2;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Script what = script();
    what.steps = 5;
    what.adjust = [&](int rank, int step, GradientBucket& bucket) {
      if (step == bad_step && rank == 1 && bucket.index == 1)
        bucket.gradients[bucket.gradients.size() / 2] = bad;
    };
    what.drops = [&](int step) { return step == bad_step; };
    const auto all = run(what);
    expect_same_bits_on_all_ranks(all);
    bool is_finite = true;
    const auto& averages = all[0].averages[bad_step];
    for (std::size_t p = 1; p < averages.size(); p += 3) {
      for (const float number : averages[p]) is_finite = is_finite && std::isfinite(number);
    }
    EXPECT_FALSE(is_finite) << bad;

    // The same run without that step: what is step 3 there is given step 4's gradients here.
    Script without = script();
    without.steps = 4;
    without.adjust = [&](int rank, int step, GradientBucket& bucket) {
      if (step < bad_step) return;
      for (const GradientPart& part : bucket.parts) {
        const auto p = static_cast<std::size_t>(std::stoul(part.name.substr(1)));
        for (std::size_t i = 0; i < part.count; ++i)
          bucket.gradients[part.offset + i] = gradient(rank, step + 1, p, i);
      }
    };
    const auto expected = run(without);
    for (const std::size_t step : {3u, 4u}) {
      for (std::size_t p = 0; p < averages.size(); ++p) {
        EXPECT_TRUE(same_bits(all[0].averages[step][p], expected[0].averages[step - 1][p]))
            << "step " << step << ", parameter " << p;
      }
    }
  }
}

TEST_P(HookOfUnboundedRange, KeepsWhatItKeepsUnscaled) {
  const float scales[] = {1, 1024, 0.25f, 65536, 8};
  const auto plain = run(script());
  Script what = script();
  what.adjust = [&](int, int step, GradientBucket& bucket) {
    bucket.loss_scale = scales[step];
    for (float& number : bucket.gradients) number *= bucket.loss_scale;
  };
  const auto scaled = run(what);
  for (std::size_t step = 0; step < plain[0].averages.size(); ++step) {
    for (std::size_t p = 0; p < plain[0].averages[step].size(); ++p) {
      auto averages = scaled[0].averages[step][p];
      for (float& number : averages) number /= scales[step];
      EXPECT_TRUE(same_bits(averages, plain[0].averages[step][p])) << "step " << step << ", parameter " << p;
    }
  }
}

TEST_P(Hook, GoesOnFromItsState) {
  Script what = script();
  const auto straight = run(what);
  what.replace = [&](int step, std::shared_ptr<GradientHook> before) {
    if (step != 2) return before;
    auto fresh = make_gradient_hook(GetParam());
    fresh->set_state(before->state());
    return fresh;
  };
  const auto resumed = run(what);
  for (std::size_t step = 0; step < straight[0].averages.size(); ++step) {
    for (std::size_t p = 0; p < straight[0].averages[step].size(); ++p)
      EXPECT_TRUE(same_bits(resumed[0].averages[step][p], straight[0].averages[step][p])) << step << ' ' << p;
  }
  EXPECT_THROW(make_gradient_hook(GetParam())->set_state({{"of another hook", {1}}}), InvalidArgumentError);
}

TEST_P(Hook, AStateOfOtherParametersIsRefused) {
  Script what = script();
  what.steps = 2;
  const auto hook = make_gradient_hook(GetParam());
  hook->set_state(run(what)[1].state);
  auto known = parameters();
  hook->check(known);
  const auto keeps = [&](const HookState& state) {
    return std::ranges::any_of(state, [](const auto& item) {
      return item.first.starts_with("left out of ") || item.first.starts_with("accumulated of ");
    });
  };
  for (GradientPart& part : known) {
    if (part.shape.empty()) continue;
    part.count = part.count / static_cast<std::uint64_t>(std::max<std::int64_t>(part.shape.back(), 1)) *
                 static_cast<std::uint64_t>(part.shape.back() + 1);
    ++part.shape.back();
  }
  if (keeps(hook->state())) {
    EXPECT_THROW(hook->check(known), InvalidArgumentError);
  }
}

TEST_P(Hook, TakesBucketsOfNoAndOfFewElements) {
  Script what = script();
  what.ranks = 5;
  // Parameters of 0, 1, 3 and 6 elements: fewer than ranks, in buckets of their own.
  what.buckets = [](int) { return std::vector<std::vector<std::size_t>>{{1}, {0}, {2}, {1, 11}}; };
  const auto all = run(what);
  expect_same_bits_on_all_ranks(all);
  for (const float number : all[0].averages[0][11]) EXPECT_TRUE(std::isfinite(number));
}

TEST_P(Hook, ARankWithoutDataChangesNothingOfWhatItHasKept) {
  Script what = script();
  what.steps = 2;
  const auto before = run(what);
  what.steps = 4;
  what.adjust = [](int rank, int step, GradientBucket& bucket) {
    if (rank != 1 || step < 2) return;
    bucket.contributes = false;
    std::ranges::fill(bucket.gradients, 0.0f);
  };
  const auto after = run(what);
  expect_same_bits_on_all_ranks(after);
  for (const auto& [name, values] : before[1].state) {
    if (!name.starts_with("left out of ") && !name.starts_with("accumulated of ")) continue;
    // As the owner of a part it keeps what the averages of that part leave out.
    const auto& now = after[1].state.at(name);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < values.size(); ++i) changed += values[i] == now[i] ? 0 : 1;
    if (!GetParam().starts_with("top_k") && !GetParam().starts_with("power_sgd")) continue;
    EXPECT_EQ(changed, 0u) << name;
  }
}

TEST_P(HookThatAverages, FindsTheMinimum) {
  // Each rank pulls to a point of its own; the least sum of squares is at their mean.
  constexpr std::size_t kCount = 12 * 24;
  constexpr int kRanks = 3, kSteps = 400;
  expect_ranks({.size = kRanks}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(GetParam());
    const std::vector<GradientPart> parts = {{"x", {12, 24}, 0, kCount}};
    std::vector<float> x(kCount), step(kCount);
    double distance = 0;
    for (int s = 0; s < kSteps; ++s) {
      for (std::size_t i = 0; i < kCount; ++i) step[i] = x[i] - gradient(communicator.rank(), 0, 7, i);
      GradientBucket bucket;
      bucket.gradients = step;
      bucket.parts = parts;
      hook->average(bucket, communicator);
      hook->end_step(true);
      // The rate of a step that comes 50 times late must be small; a momentum makes it ten times as large.
      const float rate = (has_momentum(GetParam()) ? 0.002f : 0.05f) * (s < kSteps / 2 ? 1.0f : 0.3f);
      distance = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        x[i] -= rate * step[i];
        double target = 0;
        for (int r = 0; r < kRanks; ++r) target += static_cast<double>(gradient(r, 0, 7, i)) / kRanks;
        distance += std::pow(static_cast<double>(x[i]) - target, 2);
      }
    }
    EXPECT_LT(std::sqrt(distance / kCount), 0.1) << "from the mean, which is 0.3 away from zero";
  });
}

std::vector<std::string> hooks_that(const std::function<bool(const std::string&)>& fit) {
  std::vector<std::string> hooks = tested_hooks();
  std::erase_if(hooks, [&](const std::string& hook) { return !fit(hook); });
  return hooks;
}
std::string name_of_hook(const testing::TestParamInfo<std::string>& info) {
  return test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(Compression, Hook, testing::ValuesIn(tested_hooks()), name_of_hook);
INSTANTIATE_TEST_SUITE_P(Compression, HookThatAverages, testing::ValuesIn(hooks_that(averages)),
                         name_of_hook);
INSTANTIATE_TEST_SUITE_P(Compression, HookWithFeedback, testing::ValuesIn(hooks_that(has_feedback)),
                         name_of_hook);
INSTANTIATE_TEST_SUITE_P(Compression, HookWithoutFeedback,
                         testing::ValuesIn(hooks_that([](const std::string& hook) {
                           return averages(hook) && !has_feedback(hook) && !has_momentum(hook);
                         })),
                         name_of_hook);
// float16's range is too small for a scale to change nothing.
INSTANTIATE_TEST_SUITE_P(
    Compression, HookOfUnboundedRange,
    testing::ValuesIn(hooks_that([](const std::string& hook) { return hook != "float16"; })), name_of_hook);

}  // namespace
}  // namespace kolo::test
