// Experts on different ranks compute what one process computes of all tokens.
#include "kolo/train/mixture_of_experts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/slice.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

constexpr std::int64_t kTokenWidth = 4, kExperts = 5, kTokens = 13;

MixtureOfExpertsOptions experts_options(int chosen, double capacity_factor) {
  return {.width = kTokenWidth,
          .hidden = 6,
          .experts = kExperts,
          .chosen = chosen,
          .capacity_factor = capacity_factor,
          .generator = seeded(11)};
}

struct PlainOutput {
  at::Tensor output, balance;
  std::int64_t dropped = 0;
};

/// Token by token: first choices, then second ones.
PlainOutput plain_experts(const Whole& p, const at::Tensor& x, const MixtureOfExpertsOptions& options) {
  const std::int64_t tokens = x.size(0), chosen = options.chosen;
  const at::Tensor probabilities = at::softmax(at::linear(x, p.at("gate")), -1);
  const auto [highest, which] = at::topk(probabilities, chosen, -1);
  const at::Tensor weights = chosen == 1 ? highest : highest / highest.sum(-1, true);
  const double equal_part = static_cast<double>(tokens * chosen) / kExperts;
  const auto capacity = options.capacity_factor > 0
                            ? static_cast<std::int64_t>(std::ceil(options.capacity_factor * equal_part))
                            : tokens * chosen;
  std::vector<std::int64_t> taken(kExperts), first(kExperts);
  std::vector<at::Tensor> rows;
  for (std::int64_t token = 0; token < tokens; ++token) rows.push_back(at::zeros({kTokenWidth}, x.options()));
  PlainOutput result;
  for (std::int64_t choice = 0; choice < chosen; ++choice) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t expert = which[token][choice].item<std::int64_t>();
      const auto place = static_cast<std::size_t>(expert);
      if (choice == 0) ++first[place];
      if (taken[place] == capacity) {
        ++result.dropped;
        continue;
      }
      ++taken[place];
      const at::Tensor hidden = at::relu(at::linear(x[token], p.at("up")[expert], p.at("up_bias")[expert]));
      const at::Tensor output = at::linear(hidden, p.at("down")[expert], p.at("down_bias")[expert]);
      auto& row = rows[static_cast<std::size_t>(token)];
      row = row + output * weights[token][choice];
    }
  }
  result.output = at::stack(rows);
  result.balance = kExperts * (at::tensor(first, at::kLong).to(at::kDouble) / static_cast<double>(tokens) *
                               probabilities.mean(0))
                                  .sum();
  return result;
}

TEST(MixtureOfExperts, TrainsAsOneProcessWithAllTokens) {
  for (const int chosen : {1, 2}) {
    for (const double capacity_factor : {0.0, 1.0}) {
      SCOPED_TRACE(capacity_factor);
      const auto options = experts_options(chosen, capacity_factor);
      expect_as_one_process({.build = [&](Communicator& group) -> Built {
                               auto own = options;
                               own.generator = seeded(11);
                               MixtureOfExperts experts(own, group);
                               // 13 tokens, which the ranks divide unevenly.
                               return {experts.ptr(), [=](const at::Tensor& x) mutable {
                                         const at::Tensor y = experts(split_to_group(x, 0, group));
                                         return at::cat({gather_from_group(y, 0, group, kTokens).flatten(),
                                                         experts->balance_loss().view({1})});
                                       }};
                             },
                             .plain =
                                 [&](const Whole& p, const at::Tensor& x) {
                                   const auto [output, balance, dropped] = plain_experts(p, x, options);
                                   return at::cat({output.flatten(), balance.view({1})});
                                 },
                             .input = waves({kTokens, kTokenWidth}, 1).mul(2),
                             .ranks = chosen == 1 ? std::vector<int>{1, 2, 4} : std::vector<int>{3}});
    }
  }
}

TEST(MixtureOfExperts, CountsLoadsAndDroppedTokensOfAllRanks) {
  run_all(3, [](Communicator& group) {
    MixtureOfExperts experts(experts_options(2, 0.6), group);
    experts->to(at::kDouble);
    const at::Tensor x = waves({kTokens, kTokenWidth}, 1).mul(2);
    const Whole whole = whole_of(*experts, group);
    const auto plain = plain_experts(whole, x, experts->options);
    const Slice own = slice_of(kTokens, group.rank(), 3);
    experts(x.narrow(0, own.begin, own.length));
    EXPECT_EQ(experts->dropped(), plain.dropped);
    EXPECT_GT(plain.dropped, 0);
    const auto& loads = experts->loads();
    EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}), 2 * kTokens);
    EXPECT_LT(relative_distance(experts->balance_loss().detach(), plain.balance.detach()), 1e-12);
  });
}

TEST(MixtureOfExperts, ARankWithoutTokensAndExpertsWithoutTokensTakePart) {
  run_all(3, [](Communicator& group) {
    MixtureOfExperts experts(experts_options(1, 0), group);
    // Only rank 1 has tokens, all alike, so one expert gets all of them.
    const std::int64_t tokens = group.rank() == 1 ? 4 : 0;
    const at::Tensor x = at::ones({tokens, kTokenWidth}).set_requires_grad(true);
    const at::Tensor y = experts(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(std::ranges::count(experts->loads(), 4), 1);
    (y.sum() + experts->balance_loss()).backward();
    for (const at::Tensor& parameter : experts->parameters()) EXPECT_TRUE(parameter.grad().defined());
    EXPECT_TRUE(same_everywhere(group, bits({experts->gate.grad()})));
  });
}

TEST(MixtureOfExperts, ComputesInSixteenBits) {
  run_all(2, [](Communicator& group) {
    MixtureOfExperts experts(experts_options(2, 0), group);
    const at::Tensor x = waves({2, 3, kTokenWidth}, group.rank()).to(at::kFloat);
    const at::Tensor y = experts(x).detach();
    experts->to(at::kBFloat16);
    const at::Tensor short_y = experts(x.to(at::kBFloat16));
    EXPECT_EQ(short_y.scalar_type(), at::kBFloat16);
    EXPECT_LT(relative_distance(short_y.detach(), y), 5e-2);
    short_y.sum().backward();
  });
}

}  // namespace
}  // namespace kolo::test::tensor
