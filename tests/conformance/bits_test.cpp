// A real run gives the bits that its schedule gives in plain arithmetic, whatever the transport and the
// segments; so algorithms that add in the same order agree bit for bit.
#include <bit>
#include <map>
#include <random>

#include "algorithms/algorithm.hpp"
#include "conformance/transports.hpp"
#include "support/cluster.hpp"
#include "support/evaluate.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

constexpr std::uint64_t kCount = 1031;

/// Numbers whose sum depends on its order: of both signs, and of very different sizes.
std::vector<float> awkward_numbers(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> numbers(kCount);
  for (float& number : numbers) {
    const float fraction = static_cast<float>(random() % 16'777'216) / 8'388'608.0f - 1.0f;
    number = std::ldexp(fraction, static_cast<int>(random() % 24));
  }
  return numbers;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

/// What each rank must hold after this variant of all_reduce.
std::vector<std::uint32_t> expected_bits(const Configured& variant, int size) {
  std::vector<Schedule> schedules;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(
        variant.algorithm->generate({Collective::all_reduce, rank, size, 0, variant.arguments}));
    inputs.push_back(awkward_numbers(rank));
  }
  const auto outputs = evaluate_sum(schedules, inputs);
  for (const auto& output : outputs) EXPECT_EQ(bits_of(output), bits_of(outputs[0])) << variant.name();
  return bits_of(outputs[0]);
}

std::vector<Configured> all_reduces(int size) {
  std::vector<Configured> result;
  for (Configured& variant : all_variants()) {
    const ScheduleSpec spec{Collective::all_reduce, 0, size, 0, variant.arguments};
    if (variant.algorithm->collective == Collective::all_reduce && supports(*variant.algorithm, spec).ok()) {
      result.push_back(std::move(variant));
    }
  }
  return result;
}

class BitsOver : public ::testing::TestWithParam<const char*> {};

TEST_P(BitsOver, AreThoseOfTheSchedule) {
  for (const int size : {2, 3, 4, 5, 8}) {
    std::map<std::string, std::vector<std::uint32_t>> expected;
    for (const Configured& variant : all_reduces(size))
      expected[variant.name()] = expected_bits(variant, size);
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      const std::vector<float> mine = awkward_numbers(communicator.rank());
      for (const auto& [name, bits] : expected) {
        for (const std::uint64_t segment : {std::uint64_t{0}, std::uint64_t{256}}) {
          std::vector<float> sum(kCount);
          communicator.all_reduce(ConstBuffer(mine), Buffer(sum), ReduceOp::sum,
                                  {.algorithm = name, .segment_bytes = segment});
          if (bits_of(sum) != bits) throw std::runtime_error(name + ": other bits than its schedule gives");
          std::vector<float> in_place = mine;
          communicator.all_reduce(Buffer(in_place), ReduceOp::sum,
                                  {.algorithm = name, .segment_bytes = segment});
          if (bits_of(in_place) != bits) throw std::runtime_error(name + ": other bits in place");
        }
      }
    });
  }
}

TEST(Bits, OfTheLeftFoldsAreTheSame) {
  for (const int size : {2, 3, 5, 8}) {
    std::vector<float> fold = awkward_numbers(0);
    for (int rank = 1; rank < size; ++rank) {
      const std::vector<float> next = awkward_numbers(rank);
      for (std::size_t i = 0; i < fold.size(); ++i) fold[i] += next[i];
    }
    for (const char* name : {"central", "naive", "direct", "parameter_server"}) {
      const auto variant = parse_algorithm(Collective::all_reduce, name);
      ASSERT_TRUE(variant.ok()) << variant.status().message();
      EXPECT_EQ(expected_bits(variant.value(), size), bits_of(fold)) << name << " of " << size;
    }
  }
}

TEST(Bits, DependOnTheOrderInThisTest) {
  EXPECT_NE(expected_bits(parse_algorithm(Collective::all_reduce, "ring").value(), 5),
            expected_bits(parse_algorithm(Collective::all_reduce, "central").value(), 5));
}

INSTANTIATE_TEST_SUITE_P(Conformance, BitsOver, kTransports);

}  // namespace
}  // namespace kolo::test
