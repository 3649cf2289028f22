// Evaluation of schedules: depths of roundings, and sums of 16-bit numbers. The conformance tests compare the
// bits with those of real runs.
#include "evaluation/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "algorithms/algorithm.hpp"

namespace kolo {
namespace {

std::vector<schedule::Schedule> schedules_of(const char* name, int ranks) {
  const algorithms::ConfiguredAlgorithm algorithm =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, name).value();
  return algorithms::generate_all(*algorithm.algorithm,
                                  {schedule::Collective::all_reduce, 0, ranks, 0, algorithm.arguments, {}});
}

void expect_depth(const char* name, int ranks, Wire wire, int depth) {
  const std::vector<schedule::Schedule> schedules = schedules_of(name, ranks);
  const schedule::MessageGraph graph = schedule::MessageGraph::build(schedules).value();
  const std::vector<int> depths = evaluation::rounding_depths(schedules, graph, 64, {.wire = wire});
  ASSERT_EQ(depths.size(), 64u);
  EXPECT_EQ(std::ranges::min(depths), depth) << name;
  EXPECT_EQ(std::ranges::max(depths), depth) << name;
}

TEST(RoundingDepths, CountAdditions) {
  for (const int ranks : {2, 5, 8, 16}) {
    for (const char* name : {"ring", "central", "direct", "naive"}) {
      expect_depth(name, ranks, Wire::native, ranks - 1);
    }
  }
  for (const char* name : {"halving_doubling", "recursive_doubling", "binomial"}) {
    expect_depth(name, 16, Wire::native, 4);
  }
}

TEST(RoundingDepths, CountMessagesOfAWireAndTheLastRounding) {
  for (const Wire wire : {Wire::bfloat16, Wire::float16}) {
    expect_depth("ring", 8, wire, 8);
    expect_depth("direct", 8, wire, 2);
    expect_depth("binomial", 8, wire, 4);
  }
}

/// A sum of one element.
float sum_of(const char* name, const std::vector<float>& numbers, const evaluation::Arithmetic& arithmetic) {
  std::vector<std::vector<float>> inputs;
  for (const float number : numbers) inputs.push_back({number});
  return evaluation::evaluate(schedules_of(name, static_cast<int>(numbers.size())), inputs, arithmetic)[0][0];
}

TEST(Evaluate, RoundsEachSumToTheTypeOfTheArrays) {
  EXPECT_EQ(sum_of("central", {256, 1, 1}, {}), 258);
  EXPECT_EQ(sum_of("central", {256, 1, 1}, {.element = DType::bfloat16}), 256);  // 257 has nine bits
  EXPECT_EQ(sum_of("central", {1, 1, 256}, {.element = DType::bfloat16}), 258);
  EXPECT_EQ(sum_of("central", {2048, 1, 1}, {.element = DType::float16}), 2048);
}

TEST(Evaluate, RoundsMessagesToTheWireAndAddsInFloat32) {
  EXPECT_EQ(sum_of("central", {256, 1, 1}, {.wire = Wire::bfloat16}), 258);
  EXPECT_EQ(sum_of("central", {256, 1.0f + 0x1p-12f, 1}, {.wire = Wire::bfloat16}), 258);
  EXPECT_EQ(sum_of("central", {1, 2, 3}, {.average = true}), 2);
}

}  // namespace
}  // namespace kolo
