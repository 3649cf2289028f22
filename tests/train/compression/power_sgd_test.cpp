// PowerSGD: what a low rank holds, and what its options do.
#include <gtest/gtest.h>

#include <cmath>

#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

constexpr std::size_t kRows = 24, kColumns = 40;

/// The averages of each step, where all ranks always have the same gradient.
std::vector<std::vector<float>> averages_of(const std::string& hook_name, const std::vector<float>& gradient,
                                            int steps) {
  std::vector<std::vector<float>> averages(static_cast<std::size_t>(steps));
  expect_ranks({.size = 2}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(hook_name);
    const std::vector<GradientPart> parts = {{"matrix", {kRows, kColumns}, 0, kRows * kColumns}};
    for (auto& average : averages) {
      auto mine = gradient;
      GradientBucket bucket;
      bucket.gradients = mine;
      bucket.parts = parts;
      hook->average(bucket, communicator);
      hook->end_step(true);
      if (communicator.rank() == 0) average = mine;
    }
  });
  return averages;
}

std::vector<float> any_gradient() {
  std::vector<float> numbers(kRows * kColumns);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = gradient(0, 0, 1, i);
  return numbers;
}

double distance(const std::vector<float>& one, const std::vector<float>& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    sum += std::pow(static_cast<double>(one[i]) - static_cast<double>(other[i]), 2);
  return std::sqrt(sum);
}

TEST(PowerSgd, AMatrixOfLowerRankArrivesWhole) {
  std::vector<float> matrix(kRows * kColumns);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = gradient(0, 0, 2, i / kColumns) * gradient(0, 0, 3, i % kColumns);
  for (const auto& average : averages_of("power_sgd:rank=3", matrix, 5))
    EXPECT_LT(distance(average, matrix), 1e-5);
}

TEST(PowerSgd, GradientsMayBeVerySmallOrLarge) {
  const auto numbers = any_gradient();
  const auto plain = averages_of("power_sgd:rank=2", numbers, 4);
  for (const float scale : {0x1p-70f, 0x1p70f}) {
    auto scaled = numbers;
    for (float& number : scaled) number *= scale;
    auto averages = averages_of("power_sgd:rank=2", scaled, 4);
    for (std::size_t step = 0; step < plain.size(); ++step) {
      for (float& number : averages[step]) number /= scale;
      EXPECT_TRUE(same_bits(averages[step], plain[step])) << scale << ", step " << step;
    }
  }
}

TEST(PowerSgd, AWarmStartComesCloserFromStepToStep) {
  const auto matrix = any_gradient();
  const auto warm = averages_of("power_sgd:rank=4:feedback=0", matrix, 30);
  EXPECT_LT(distance(warm.back(), matrix), 0.97 * distance(warm.front(), matrix));
  EXPECT_LT(distance(warm[29], warm[28]), 0.1 * distance(warm[1], warm[0]));
  // Cold, each step is as good as the first, in another direction.
  const auto cold = averages_of("power_sgd:rank=4:feedback=0:warm_start=0", matrix, 30);
  EXPECT_GT(distance(cold[29], cold[28]), 0.5 * distance(cold[1], cold[0]));
  EXPECT_TRUE(same_bits(cold[0], warm[0]));
}

TEST(PowerSgd, WhatItKeepsIsWhatItsOptionsNeed) {
  expect_ranks({.size = 2}, [](Communicator& communicator) {
    for (const auto& [options, kept] :
         {std::pair{"", 3u}, std::pair{":feedback=0", 2u}, std::pair{":warm_start=0", 2u},
          std::pair{":feedback=0:warm_start=0", 1u}}) {
      const auto hook = make_gradient_hook(std::string("power_sgd") + options);
      const std::vector<GradientPart> parts = {{"matrix", {kRows, kColumns}, 0, kRows * kColumns}};
      auto mine = any_gradient();
      GradientBucket bucket;
      bucket.gradients = mine;
      bucket.parts = parts;
      hook->average(bucket, communicator);
      hook->end_step(true);
      EXPECT_EQ(hook->state().size(), kept) << options;
    }
  });
}

}  // namespace
}  // namespace kolo::test
