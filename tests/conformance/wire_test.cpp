// Wire formats: a real run gives on every rank the bits that its schedule gives in plain arithmetic with
// rounded messages, whatever the transport and the segments.
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "algorithms/algorithm.hpp"
#include "support/cluster.hpp"
#include "support/expected_bits.hpp"
#include "support/transports.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

constexpr Wire kWires[] = {Wire::bfloat16, Wire::float16, Wire::int8};

/// The algorithms that may use a wire format, or those that may not.
std::vector<algorithms::ConfiguredAlgorithm> all_reduces(int size, bool rounded) {
  std::vector<algorithms::ConfiguredAlgorithm> result;
  for (algorithms::ConfiguredAlgorithm& variant : all_variants()) {
    if (variant.algorithm->collective != schedule::Collective::all_reduce) continue;
    const algorithms::ScheduleSpec spec{schedule::Collective::all_reduce, 0, size, 0, variant.arguments};
    if (!algorithms::supports(*variant.algorithm, spec).ok()) continue;
    if (algorithms::supports(*variant.algorithm, spec, {.wire = Wire::int8}).ok() == rounded) {
      result.push_back(std::move(variant));
    }
  }
  return result;
}

std::vector<std::vector<std::uint32_t>> outputs_of(const algorithms::ConfiguredAlgorithm& variant, int size,
                                                   std::uint64_t count, Wire wire) {
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(
      *variant.algorithm, {schedule::Collective::all_reduce, 0, size, 0, variant.arguments});
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(awkward_numbers(rank, count));
  std::vector<std::vector<std::uint32_t>> bits;
  for (const auto& output : evaluation::evaluate(schedules, inputs, {.wire = wire}))
    bits.push_back(bits_of(output));
  return bits;
}

TEST(WireSchedules, ThatCompleteEveryChunkOnceGiveAllRanksTheSameBits) {
  for (int size = 1; size <= 16; ++size) {
    const auto fit = all_reduces(size, true);
    EXPECT_GE(fit.size(), 8u) << size;
    for (const algorithms::ConfiguredAlgorithm& variant : fit) {
      for (const Wire wire : kWires) {
        const auto bits = outputs_of(variant, size, 5003, wire);
        for (const auto& one : bits) ASSERT_EQ(one, bits[0]) << variant.name() << " of " << size;
      }
    }
  }
}

TEST(WireSchedules, ThatDoNotAreRefusedForThat) {
  std::map<std::string, int> differ;
  for (int size = 2; size <= 16; ++size) {
    for (const algorithms::ConfiguredAlgorithm& variant : all_reduces(size, false)) {
      const algorithms::ScheduleSpec spec{schedule::Collective::all_reduce, 0, size, 0, variant.arguments};
      const std::string why = algorithms::supports(*variant.algorithm, spec, {.wire = Wire::int8}).message();
      EXPECT_NE(why.find("chunk 0 at rank"), std::string::npos) << why;
      const auto bits = outputs_of(variant, size, 5003, Wire::int8);
      for (const auto& one : bits) differ[variant.name()] += one != bits[0] ? 1 : 0;
    }
  }
  // In these algorithms the ranks' own rounded operands differ, so the refusal is needed.
  EXPECT_GT(differ["recursive_doubling"], 0);
  EXPECT_GT(differ["naive"], 0);
}

TEST(WireSchedules, OfSeveralRanksAHostFollowWhatRunsAcross) {
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 0, 2, 1}, std::vector<int>{0, 0, 0, 1}}) {
    const auto size = static_cast<int>(hosts.size());
    const auto fits = [&](const char* name) {
      const algorithms::ConfiguredAlgorithm variant =
          algorithms::parse_algorithm(schedule::Collective::all_reduce, name).value();
      const algorithms::ScheduleSpec spec{
          schedule::Collective::all_reduce, 0, size, 0, variant.arguments, hosts};
      return algorithms::supports(*variant.algorithm, spec, {.wire = Wire::int8}).ok();
    };
    EXPECT_TRUE(fits("hierarchical"));
    EXPECT_TRUE(fits("hierarchical:across=direct"));
    EXPECT_FALSE(fits("hierarchical:across=naive"));
  }
}

class WireOver : public ::testing::TestWithParam<const char*> {};

TEST_P(WireOver, GivesTheBitsOfTheSchedule) {
  // The bits depend on the schedule only, not on the transport.
  const bool is_quick = GetParam() == std::string_view("inproc");
  for (const int size : is_quick ? std::vector{1, 2, 3, 4, 5, 8} : std::vector{2, 5}) {
    using Key = std::tuple<std::string, Wire, bool, std::uint64_t>;
    std::map<Key, std::vector<std::uint32_t>> expected;
    for (const algorithms::ConfiguredAlgorithm& variant : all_reduces(size, true)) {
      for (const Wire wire : kWires) {
        for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{9001}}) {
          const bool average = count == 1;
          expected[{variant.name(), wire, average, count}] = expected_bits(
              variant, size, count, {.wire = size == 1 ? Wire::native : wire, .average = average});
        }
      }
    }
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      for (const auto& [key, bits] : expected) {
        const auto& [name, wire, average, count] = key;
        const std::vector<float> mine = awkward_numbers(communicator.rank(), count);
        const ReduceOp op = average ? ReduceOp::average : ReduceOp::sum;
        const std::string what = name + ", " + std::string(name_of(wire));
        std::vector<float> sum(count);
        communicator.all_reduce(ConstBuffer(mine), Buffer(sum), op, {.algorithm = name, .wire = wire});
        if (bits_of(sum) != bits) throw std::runtime_error(what + ": other bits than its schedule gives");
        std::vector<float> in_place = mine;
        communicator.all_reduce(Buffer(in_place), op,
                                {.algorithm = name, .segment_bytes = 2048, .wire = wire});
        if (bits_of(in_place) != bits) throw std::runtime_error(what + ": other bits in place, in segments");
      }
    });
  }
}

TEST_P(WireOver, SendsFewerBytes) {
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
    constexpr std::uint64_t kCount = 1 << 18;
    std::vector<float> data(kCount, 1.0f);
    std::map<Wire, std::uint64_t> sent;
    for (const Wire wire : {Wire::native, Wire::bfloat16, Wire::float16, Wire::int8}) {
      const std::uint64_t before = c.counters().bytes_sent;
      c.all_reduce(data, ReduceOp::average, {.algorithm = "ring", .wire = wire});
      sent[wire] = c.counters().bytes_sent - before;
    }
    const std::uint64_t whole = 2 * 3 * kCount;  // 2 (N-1) / N of so many floats
    if (sent[Wire::native] != whole || sent[Wire::bfloat16] != whole / 2 ||
        sent[Wire::float16] != whole / 2 || sent[Wire::int8] != whole / 4 + whole / 4 / 256 * 4) {
      throw std::runtime_error("sent " + std::to_string(sent[Wire::native]) + ", " +
                               std::to_string(sent[Wire::bfloat16]) + ", " +
                               std::to_string(sent[Wire::int8]));
    }
  });
}

TEST_P(WireOver, RoundsAboutAsMuchAsTheFormatSays) {
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
    constexpr std::uint64_t kCount = 100'003;
    std::vector<double> exact(kCount);
    std::vector<float> mine(kCount);
    for (int rank = 0; rank < c.size(); ++rank) {
      for (std::uint64_t i = 0; i < kCount; ++i) {
        const auto mixed = (i * 2654435761u + static_cast<std::uint64_t>(rank) * 40503u) % 65521;
        const float number = static_cast<float>(mixed) / 32760.0f - 1.0f;
        exact[i] += static_cast<double>(number);
        if (rank == c.rank()) mine[i] = number;
      }
    }
    // Of a sum of 4 numbers of up to 1: each on its way, sums of two and three, and the result.
    const std::map<Wire, double> most = {
        {Wire::bfloat16, 10.0 / 256}, {Wire::float16, 10.0 / 2048}, {Wire::int8, 10.0 / 253}};
    for (const auto& [wire, tolerance] : most) {
      for (const char* name : {"", "ring", "direct"}) {
        std::vector<float> sum(kCount);
        c.all_reduce(ConstBuffer(mine), Buffer(sum), ReduceOp::sum, {.algorithm = name, .wire = wire});
        double largest = 0;
        for (std::uint64_t i = 0; i < kCount; ++i) {
          largest = std::max(largest, std::abs(static_cast<double>(sum[i]) - exact[i]));
        }
        if (largest > tolerance || largest < tolerance / 100) {
          throw std::runtime_error(std::string(name_of(wire)) + ": off by " + std::to_string(largest));
        }
      }
    }
  });
}

TEST_P(WireOver, IsRefusedWhereItDoesNotFit) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> data(8, 1.0f);
    std::vector<double> doubles(8);
    const CallOptions rounded{.wire = Wire::bfloat16};
    const auto refused = [](const char* expected, const std::function<void()>& call) {
      try {
        call();
      } catch (const InvalidArgumentError& error) {
        if (std::string(error.what()).find(expected) != std::string::npos) return;
        throw std::runtime_error(std::string("unclear: '") + error.what() + "'");
      }
      throw std::runtime_error(std::string("not refused: ") + expected);
    };
    refused("float64", [&] { c.all_reduce(doubles, ReduceOp::sum, rounded); });
    refused("max", [&] { c.all_reduce(data, ReduceOp::max, rounded); });
    refused("only all_reduce", [&] { c.broadcast(data, 0, rounded); });
    refused("only all_reduce", [&] { c.barrier(rounded); });
    refused("chunk 0 at rank 0 and at rank 1", [&] {
      c.all_reduce(data, ReduceOp::sum, {.algorithm = "recursive_doubling", .wire = Wire::int8});
    });
    c.all_reduce(doubles, ReduceOp::sum, {.wire = Wire::native});
    c.all_reduce(data, ReduceOp::sum, rounded);
    if (data[0] != 2.0f) throw std::runtime_error("wrong sum after refused calls");
  });
}

TEST_P(WireOver, RanksThatDisagreeAllLearnOfIt) {
  std::vector<std::vector<float>> memory(3, std::vector<float>(100'000));
  for (const int size : {2, 3}) {
    for (const std::uint64_t count : {std::uint64_t{10}, std::uint64_t{100'000}}) {
      expect_mismatch(GetParam(), size,
                      [&](Communicator& c) {
                        const Wire wire = c.rank() == 1 ? Wire::native : Wire::bfloat16;
                        auto& data = memory[static_cast<std::size_t>(c.rank())];
                        c.all_reduce(Buffer(data.data(), count, DType::float32), ReduceOp::sum,
                                     {.algorithm = "ring", .wire = wire});
                      },
                      {"rank 1", "ring, bfloat16 on the wire)", "ring)"});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, WireOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
