#include "support/expected_bits.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace kolo::test {

std::vector<float> awkward_numbers(int rank, std::uint64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const float fraction = static_cast<float>(random() % 16'777'216) / 8'388'608.0f - 1.0f;
    number = std::ldexp(fraction, static_cast<int>(random() % 24));
  }
  return numbers;
}

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

std::vector<std::uint32_t> expected_bits(const algorithms::ConfiguredAlgorithm& variant, int size,
                                         std::uint64_t count, const evaluation::Arithmetic& arithmetic) {
  std::vector<schedule::Schedule> schedules;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(
        variant.algorithm->generate({schedule::Collective::all_reduce, rank, size, 0, variant.arguments}));
    inputs.push_back(awkward_numbers(rank, count));
  }
  const auto outputs = evaluation::evaluate(schedules, inputs, arithmetic);
  for (const auto& output : outputs) EXPECT_EQ(bits_of(output), bits_of(outputs[0])) << variant.name();
  return bits_of(outputs[0]);
}

}  // namespace kolo::test
