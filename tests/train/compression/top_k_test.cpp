// Top-k: what it does beyond what every hook does.
#include <gtest/gtest.h>

#include "train/compression/replicas.hpp"

namespace kolo::test {
namespace {

void average(GradientHook& hook, std::vector<float>& gradients, Communicator& communicator) {
  const std::vector<GradientPart> parts = {
      {"x", {static_cast<std::int64_t>(gradients.size())}, 0, gradients.size()}};
  GradientBucket bucket;
  bucket.gradients = gradients;
  bucket.parts = parts;
  hook.average(bucket, communicator);
  hook.end_step(true);
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
