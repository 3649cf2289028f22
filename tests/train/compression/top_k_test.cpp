// Top-k: what it does beyond what every hook does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

void average(GradientHook& hook, std::vector<float>& gradients, Communicator& communicator,
             bool is_kept = true) {
  const std::vector<GradientPart> parts = {
      {"x", {static_cast<std::int64_t>(gradients.size())}, 0, gradients.size()}};
  GradientBucket bucket;
  bucket.gradients = gradients;
  bucket.parts = parts;
  hook.average(bucket, communicator);
  hook.end_step(is_kept);
}

/// One rank of algorithm 4 of the paper (without clipping), as plainly as can be.
struct Reference {
  std::vector<float> u, v;

  std::vector<float> step(int rank, int step, std::size_t sent) {
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = 0.9f * u[i] + gradient(rank, step, 3, i);
      v[i] += u[i];
    }
    std::vector<std::size_t> order(u.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
    std::vector<float> sparse(u.size());
    for (std::size_t s = 0; s < sent; ++s) {
      sparse[order[s]] = v[order[s]];
      u[order[s]] = v[order[s]] = 0;
    }
    return sparse;
  }
};

TEST(TopK, CorrectsAndMasksTheMomentumAsItsPaperDoes) {
  constexpr std::size_t kCount = 1024;
  constexpr int kRanks = 3, kDropped = 1;
  const std::vector<std::size_t> sent = {256, 64, 64, 16, 16, 16, 16, 16};  // 1/4, 1/16, then 1/64
  std::vector<Reference> references(kRanks, {std::vector<float>(kCount), std::vector<float>(kCount)});
  std::vector<std::vector<float>> expected;
  for (std::size_t step = 0; step < sent.size(); ++step) {
    auto tried = references;
    std::vector<float>& mean = expected.emplace_back(kCount);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto mine = tried[static_cast<std::size_t>(rank)].step(rank, static_cast<int>(step), sent[step]);
      for (std::size_t i = 0; i < kCount; ++i) mean[i] += mine[i] / kRanks;
    }
    if (step != kDropped) references = tried;
  }
  expect_ranks({.size = kRanks}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook("top_k:ratio=0.015625:momentum=0.9:warm_up_steps=2");
    for (std::size_t step = 0; step < sent.size(); ++step) {
      std::vector<float> gradients(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        gradients[i] = gradient(communicator.rank(), static_cast<int>(step), 3, i);
      average(*hook, gradients, communicator, step != kDropped);
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(gradients[i], expected[step][i], 1e-5) << step << ' ' << i;
    }
  });
}

TEST(TopK, GoesOnOverAnotherCommunicator) {
  expect_ranks({.size = 3}, [](Communicator& communicator) {
    const auto hook = make_gradient_hook("top_k:ratio=1:momentum=0");
    std::vector<float> gradients(10, static_cast<float>(communicator.rank()));
    average(*hook, gradients, communicator);
    EXPECT_EQ(gradients, std::vector<float>(10, 1));
    Communicator part = communicator.split(communicator.rank() == 0 ? 0 : 1);
    gradients.assign(10, static_cast<float>(communicator.rank()));
    average(*hook, gradients, part);
    EXPECT_EQ(gradients, std::vector<float>(10, communicator.rank() == 0 ? 0 : 1.5f));
  });
}

TEST(TopK, AParameterWithoutGradientsTakesNoBytes) {
  expect_ranks({.size = 2, .transport = "tcp"}, [](Communicator& communicator) {
    const auto hook = make_gradient_hook("top_k:ratio=0.1:momentum=0");
    std::vector<std::uint64_t> sent;
    for (const std::size_t count : {10u, 10000u, 10000u}) {
      std::vector<float> gradients(count);
      const std::uint64_t before = communicator.counters().bytes_sent;
      average(*hook, gradients, communicator);
      sent.push_back(communicator.counters().bytes_sent - before);
      EXPECT_EQ(gradients, std::vector<float>(count));
      hook->set_state(make_gradient_hook("top_k")->state());  // of another length of `x`
    }
    EXPECT_LT(sent[2], 100u);
  });
}

}  // namespace
}  // namespace kolo::test
