// A real run gives the bits that its schedule gives in plain arithmetic, whatever the transport and the
// segments; so algorithms that add in the same order agree bit for bit.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <map>
#include <thread>

#include "algorithms/algorithm.hpp"
#include "support/cluster.hpp"
#include "support/expected_bits.hpp"
#include "support/transports.hpp"
#include "support/variants.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {
namespace {

constexpr std::uint64_t kCount = 1031;

std::vector<algorithms::ConfiguredAlgorithm> all_reduces(int size) {
  std::vector<algorithms::ConfiguredAlgorithm> result;
  for (algorithms::ConfiguredAlgorithm& variant : all_variants()) {
    const algorithms::ScheduleSpec spec{schedule::Collective::all_reduce, 0, size, 0, variant.arguments};
    if (variant.algorithm->collective == schedule::Collective::all_reduce &&
        algorithms::supports(*variant.algorithm, spec).ok()) {
      result.push_back(std::move(variant));
    }
  }
  return result;
}

class BitsOver : public ::testing::TestWithParam<const char*> {};

TEST_P(BitsOver, AreThoseOfTheSchedule) {
  for (const int size : {2, 3, 4, 5, 8}) {
    std::map<std::string, std::vector<std::uint32_t>> expected;
    for (const algorithms::ConfiguredAlgorithm& variant : all_reduces(size))
      expected[variant.name()] = expected_bits(variant, size, kCount);
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      const std::vector<float> mine = awkward_numbers(communicator.rank(), kCount);
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

/// The bits of every rank after a sum of numbers of 8 or 16 bits, from the schedule of this variant.
template <typename Number>
std::vector<std::uint16_t> short_bits(const algorithms::ConfiguredAlgorithm& variant,
                                      const std::vector<std::vector<Number>>& inputs, DType element,
                                      Number (*to_number)(float)) {
  std::vector<std::vector<float>> numbers;
  for (const std::vector<Number>& input : inputs) {
    numbers.emplace_back();
    for (const Number number : input) numbers.back().push_back(to_float(number));
  }
  const auto size = static_cast<int>(inputs.size());
  const auto outputs = evaluation::evaluate(
      algorithms::generate_all(*variant.algorithm,
                               {schedule::Collective::all_reduce, 0, size, 0, variant.arguments}),
      numbers, {.element = element});
  std::vector<std::uint16_t> bits;
  for (const float sum : outputs[0]) bits.push_back(to_number(sum).bits);
  return bits;
}

template <typename Number>
void expect_short_bits(const char* transport, DType element, Number (*to_number)(float)) {
  for (const int size : {2, 5, 8}) {
    std::vector<std::vector<Number>> inputs(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      for (const float number : awkward_numbers(rank, kCount)) {
        inputs[static_cast<std::size_t>(rank)].push_back(to_number(number / 8'388'608.0f));
      }
    }
    std::map<std::string, std::vector<std::uint16_t>> expected;
    for (const algorithms::ConfiguredAlgorithm& variant : all_reduces(size)) {
      expected[variant.name()] = short_bits(variant, inputs, element, to_number);
    }
    expect_ranks({.size = size, .transport = transport}, [&](Communicator& communicator) {
      const std::vector<Number>& mine = inputs[static_cast<std::size_t>(communicator.rank())];
      for (const auto& [name, bits] : expected) {
        std::vector<Number> sum(kCount);
        communicator.all_reduce(ConstBuffer(mine), Buffer(sum), ReduceOp::sum, {.algorithm = name});
        const auto same = [](Number number, std::uint16_t wanted) { return number.bits == wanted; };
        if (!std::ranges::equal(sum, bits, same))
          throw std::runtime_error(name + ": other bits than its schedule");
      }
    });
  }
}

TEST_P(BitsOver, OfShortNumbersAreThoseOfTheSchedule) {
  expect_short_bits<BFloat16>(GetParam(), DType::bfloat16, to_bfloat16);
  expect_short_bits<Float16>(GetParam(), DType::float16, to_float16);
  expect_short_bits<Float8E4M3FN>(GetParam(), DType::float8_e4m3fn, to_float8_e4m3fn);
  expect_short_bits<Float8E5M2>(GetParam(), DType::float8_e5m2, to_float8_e5m2);
}

#if defined(__SSE2__)
TEST_P(BitsOver, DoNotDependOnWhatTheProgramDoesWithDenormalNumbers) {
  constexpr int kSize = 3;
  const std::uint32_t expected = 3 * 700'000;  // denormal numbers are multiples of the smallest one
  expect_ranks({.size = kSize, .transport = GetParam()}, [&](Communicator& communicator) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
    for (const algorithms::ConfiguredAlgorithm& variant : all_reduces(kSize)) {
      std::vector<float> sum(kCount, std::bit_cast<float>(std::uint32_t{700'000}));
      const Work work =
          communicator.all_reduce_async(Buffer(sum), ReduceOp::sum, {.algorithm = variant.name()});
      // Rank 0 makes progress by waiting; the other ranks leave it to the progress thread.
      while (communicator.rank() > 0 && !work.done()) std::this_thread::yield();
      work.wait();
      const std::vector<std::uint32_t> bits = bits_of(sum);
      if (std::ranges::count(bits, expected) != kCount)
        throw std::runtime_error(variant.name() + ": other bits");
    }
    if (_mm_getcsr() != (before | 0x8040)) throw std::runtime_error("the program's own setting is gone");
    _mm_setcsr(before);
  });
}
#endif

TEST_P(BitsOver, DoNotDependOnHowTheProgramRounds) {
  const Watchdog watchdog(std::chrono::seconds(100));
  for (const int size : {3, 5}) {
    const std::shared_ptr<Store> store = make_memory_store();
    in_threads(size, [&](int rank) {
      constexpr std::array kModes{FE_TONEAREST, FE_UPWARD, FE_DOWNWARD};
      const int mode = kModes[static_cast<std::size_t>(rank) % kModes.size()];
      std::fesetround(mode);
      auto communicator =
          Communicator::create(store, rank, size, {.transports = GetParam(), .measure_costs = false});
      for (std::size_t count = 1; count <= 1 << 20; count *= 2) {
        std::vector<float> sum(count, 0.1f);
        communicator.all_reduce(sum);  // all ranks choose the same algorithm
        if (sum.front() != sum.back() || std::abs(sum.front() - 0.1f * static_cast<float>(size)) > 1e-6f)
          throw std::runtime_error("wrong sum");
        std::vector<float> all(count * static_cast<std::size_t>(size));
        communicator.all_gather(sum, all);
        communicator.reduce_scatter(all, sum);
        communicator.broadcast(sum, 1);
      }
      if (std::fegetround() != mode) throw std::runtime_error("the program's own setting is gone");
    });
  }
}

TEST(Bits, OfTheLeftFoldsAreTheSame) {
  for (const int size : {2, 3, 5, 8}) {
    std::vector<float> fold = awkward_numbers(0, kCount);
    for (int rank = 1; rank < size; ++rank) {
      const std::vector<float> next = awkward_numbers(rank, kCount);
      for (std::size_t i = 0; i < fold.size(); ++i) fold[i] += next[i];
    }
    for (const char* name : {"central", "naive", "direct", "parameter_server"}) {
      const auto variant = algorithms::parse_algorithm(schedule::Collective::all_reduce, name);
      ASSERT_TRUE(variant.ok()) << variant.status().message();
      EXPECT_EQ(expected_bits(variant.value(), size, kCount), bits_of(fold)) << name << " of " << size;
    }
  }
}

TEST(Bits, DependOnTheOrderInThisTest) {
  EXPECT_NE(
      expected_bits(algorithms::parse_algorithm(schedule::Collective::all_reduce, "ring").value(), 5, kCount),
      expected_bits(algorithms::parse_algorithm(schedule::Collective::all_reduce, "central").value(), 5,
                    kCount));
}

INSTANTIATE_TEST_SUITE_P(Conformance, BitsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
