// Hooks by name, what they refuse, and what they send.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(HookSettings, AreNamedInOneLine) {
  for (const std::string& name : gradient_hook_names())
    EXPECT_TRUE(make_gradient_hook(name)->describe().starts_with(name)) << name;
  EXPECT_EQ(make_gradient_hook("top_k:ratio=0.001:momentum=0.5:warm_up_steps=7")->describe(),
            "top_k:ratio=0.001:momentum=0.5:warm_up_steps=7");
  EXPECT_EQ(make_gradient_hook("power_sgd:rank=4:seed=9")->describe(),
            "power_sgd:rank=4:start_after_steps=0:seed=9:feedback=1:warm_start=1");
  EXPECT_EQ(make_gradient_hook("int8:feedback=1")->describe(), "int8:feedback=1:start_after_steps=0");
}

TEST(HookSettings, ThatCannotBeAreRefused) {
  const auto expect = [](const char* hook, const char* said) {
    const std::string text = refusal([&] { make_gradient_hook(hook); });
    EXPECT_NE(text.find(said), std::string::npos) << hook << ": " << text;
  };
  expect("topk", "there is no gradient hook 'topk', only float16, bfloat16, int8");
  expect("top_k:ratio=0", "a ratio of 0 is not above 0");
  expect("top_k:ratio=1.5", "a ratio of 1.5 is not above 0 and at most 1");
  expect("top_k:momentum=1", "a momentum of 1 is not");
  expect("top_k:ratio=much", "ratio=much is no number");
  expect("top_k:share=0.1", "there is no parameter 'share', only ratio, momentum, warm_up_steps");
  expect("power_sgd:rank=0", "a rank of 0 is below 1");
  expect("power_sgd:rank", "'rank' is not name=value");
  expect("int8:feedback=2", "feedback is neither 0 nor 1");
  expect("int8:feedback=1:feedback=0", "feedback is given twice");
}

TEST(HookSettings, ARankThatNoMatrixIsLargeEnoughForIsRefused) {
  const auto known = parameters();  // the largest of use is that of 64 x 50
  make_gradient_hook("power_sgd:rank=14")->check(known);
  const std::string text = refusal([&] { make_gradient_hook("power_sgd:rank=15")->check(known); });
  EXPECT_NE(text.find("with a rank of 15"), std::string::npos) << text;
  EXPECT_NE(text.find("the largest rank of use is 14"), std::string::npos) << text;
}

TEST(HookSettings, TwoMomentaAreRefused) {
  const OptimizerTraits sgd{.name = "SGD", .has_momentum = true};
  const std::string text = refusal([&] { make_gradient_hook("top_k:momentum=0.9")->check(sgd); });
  EXPECT_NE(text.find("that of SGD to 0"), std::string::npos) << text;
  make_gradient_hook("top_k:momentum=0")->check(sgd);
  make_gradient_hook("one_bit")->check(sgd);
}

TEST(HookSettings, TheRatioFallsByEqualFactors) {
  constexpr std::uint64_t kCount = 1 << 12;
  const auto hook = make_top_k_hook({.ratio = 0.25 / 64, .warm_up_steps = 3});
  const std::vector<GradientPart> parts{{"p", {kCount}, 0, kCount}};
  expect_ranks({.size = 1}, [&](Communicator& communicator) {
    for (const std::uint64_t expected : {1024, 256, 64, 16, 16}) {
      std::vector<float> gradients(kCount, 1);
      hook->average({.gradients = gradients, .parts = parts}, communicator);
      EXPECT_EQ(std::ranges::count_if(gradients, [](float number) { return number != 0; }), expected);
      hook->end_step(true);
    }
  });
}

/// Of a small convolutional network (105,866 elements) on four ranks, in shares of what a ring of float32
/// sends.
double share_of_ring_bytes(const std::string& specification) {
  const std::vector<std::vector<std::int64_t>> shapes = {{16, 1, 3, 3}, {16}, {32, 16, 3, 3}, {32},
                                                         {64, 1568},    {64}, {10, 64},       {10}};
  std::vector<GradientPart> parts;
  std::uint64_t count = 0;
  for (const auto& shape : shapes) {
    std::uint64_t size = 1;
    for (const std::int64_t n : shape) size *= static_cast<std::uint64_t>(n);
    parts.push_back({"p" + std::to_string(parts.size()), shape, count, size});
    count += size;
  }
  constexpr int kRanks = 4, kSteps = 3;
  std::vector<double> sent(kRanks);
  expect_ranks({.size = kRanks, .transport = "tcp"}, [&](Communicator& communicator) {
    const auto hook = make_gradient_hook(specification);
    std::uint64_t before = 0;
    for (int step = 0; step < 1 + kSteps; ++step) {
      std::vector<float> gradients(count);
      for (std::size_t i = 0; i < count; ++i) gradients[i] = gradient(communicator.rank(), step, 0, i);
      GradientBucket bucket;
      bucket.gradients = gradients;
      bucket.parts = parts;
      if (step == 1) before = communicator.counters().bytes_sent;  // what is made once is made
      hook->average(bucket, communicator);
      hook->end_step(true);
    }
    sent[static_cast<std::size_t>(communicator.rank())] =
        static_cast<double>(communicator.counters().bytes_sent - before) / kSteps;
  });
  double mean = 0;
  for (const double bytes : sent) mean += bytes / kRanks;
  return mean / (2.0 * (kRanks - 1) / kRanks * 4 * static_cast<double>(count));
}

TEST(HookBytes, AreFewer) {
  EXPECT_LE(share_of_ring_bytes("float16"), 0.51);
  EXPECT_LE(share_of_ring_bytes("bfloat16"), 0.51);
  EXPECT_LE(share_of_ring_bytes("int8"), 0.26);
  EXPECT_LE(share_of_ring_bytes("float8"), 0.26);
  EXPECT_LE(share_of_ring_bytes("one_bit"), 1.0 / 25);
  EXPECT_LE(share_of_ring_bytes("power_sgd:rank=2"), 1.0 / 20);
}

TEST(HookBytes, OfTopKAreFewer) {
  EXPECT_LE(share_of_ring_bytes("top_k:ratio=0.01"), 1.0 / 18);
  EXPECT_LE(share_of_ring_bytes("top_k:ratio=0.001"), 1.0 / 120);
}

}  // namespace
}  // namespace kolo::test
