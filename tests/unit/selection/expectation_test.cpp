// The expected time of a call: from the table, from the model, and its growth with the data.
#include <gtest/gtest.h>

#include "selection/chooser.hpp"

namespace kolo {
namespace {

const selection::Cuts kFloats{.block = 4};

double seconds_of(selection::Chooser& chooser, std::uint64_t bytes) {
  return chooser.expect({}, bytes, kFloats).value().seconds;
}

std::vector<int> hosts_with(int size, int per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank / per_host);
  return hosts;
}

TEST(Expectation, IsWhatTheTableSays) {
  selection::Topology topology{.size = 4, .ring = {0, 2, 1, 3}};
  topology.links_inside = {.names = "tcp", .never_ask = true};
  const selection::Setting setting{"tcp", "4"};
  topology.table.set_time(setting, schedule::Collective::all_reduce, 1 << 10, "ring", 1e-3);
  topology.table.set_time(setting, schedule::Collective::all_reduce, 1 << 12, "ring", 4e-3);
  selection::Chooser chooser(topology);
  const selection::Expectation expected = chooser.expect({}, 1 << 10, kFloats).value();
  EXPECT_EQ(expected.configured.name(),
            "ring:order=0-2-1-3");  // the name of the algorithm that runs; the table has it as "ring"
  EXPECT_TRUE(expected.measured);
  EXPECT_DOUBLE_EQ(expected.seconds, 1e-3);
  EXPECT_DOUBLE_EQ(seconds_of(chooser, 1 << 11), 2e-3);
  EXPECT_DOUBLE_EQ(seconds_of(chooser, 1 << 7), 1e-3);
  // Beyond the largest size the bytes count.
  EXPECT_DOUBLE_EQ(seconds_of(chooser, 1 << 16), 16 * 4e-3);
}

TEST(Expectation, BeyondTheTablesReachIsStillOfTheTableWhereTheAlgorithmIsNamed) {
  selection::Topology topology{.size = 2};
  topology.links_inside = {.names = "tcp", .never_ask = true};
  topology.table.set_time({"tcp", "2"}, schedule::Collective::all_reduce, 1 << 10, "ring", 1e-3);
  selection::Chooser chooser(topology);
  schedule::CallKey key{.algorithm = "ring"};
  const selection::Expectation ring = chooser.expect(key, 1 << 20, kFloats).value();
  EXPECT_TRUE(ring.measured);
  EXPECT_DOUBLE_EQ(ring.seconds, 1.024);
  key.algorithm = "recursive_doubling";
  EXPECT_FALSE(chooser.expect(key, 1 << 20, kFloats).value().measured);
}

TEST(Expectation, IsThePredictionOfTheRankingAtPowersOfTwo) {
  for (const int per_host : {1, 2, 8}) {
    selection::Topology topology{.size = 8};
    if (per_host < 8) topology.hosts = hosts_with(8, per_host);
    selection::Chooser chooser(topology);
    for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 15, std::uint64_t{1} << 24}) {
      const selection::ScoredAlgorithm first = chooser.ranking({}, bytes)[0];
      const selection::Expectation expected = chooser.expect({}, bytes, kFloats).value();
      EXPECT_EQ(expected.configured, first.configured);
      EXPECT_NEAR(expected.seconds, first.seconds, 0.01 * first.seconds) << first.configured.name();
    }
  }
}

// Algorithms within a tie are interchangeable; a tie is as wide as the model's noise.
constexpr double kTie = 1.1;

TEST(Expectation, HardlyFallsWhereTheDataGrows) {
  const auto check = [](selection::Topology topology, schedule::Collective collective,
                        double most_fall = kTie) {
    const int size = topology.size;
    selection::Chooser chooser(std::move(topology));
    double most = 0;
    for (double bytes = 4; bytes < 1e9; bytes *= 1.07) {
      const auto whole = static_cast<std::uint64_t>(bytes) / 4 * 4;
      const selection::Expectation expected =
          chooser.expect({.collective = collective}, whole, kFloats).value();
      EXPECT_GE(expected.seconds * most_fall, most)
          << schedule::name_of(collective) << " of " << whole << " bytes among " << size << ": "
          << expected.configured.name();
      most = std::max(most, expected.seconds);
    }
    EXPECT_GE(most, size == 1 ? 0 : 1e-3);
  };
  for (int number = 0; number < static_cast<int>(schedule::Collective::barrier); ++number) {
    const auto collective = static_cast<schedule::Collective>(number);
    check({.size = 1}, collective);
    check({.size = 3}, collective);
    check({.size = 4, .shares_memory = true}, collective);
    check({.size = 8, .hosts = hosts_with(8, 1)}, collective);
    check({.size = 8, .hosts = hosts_with(8, 2)}, collective);
    // Messages that are just long enough to ask for their receives meet on the links of uneven hosts in
    // another order, which takes direct an eighth less.
    check({.size = 7, .hosts = hosts_with(7, 3)}, collective, kTie * 1.125);
  }
}

TEST(Expectation, CountsTheBytesOfTheRankThatSendsMost) {
  selection::Chooser chooser({.size = 4});
  const auto sent = [&](const char* algorithm, std::uint64_t bytes, std::uint64_t block) {
    schedule::CallKey key{.algorithm = algorithm};
    return chooser.expect(key, bytes, {.block = block}).value().most_sent;
  };
  EXPECT_EQ(sent("ring", 4000, 4), 6000u);
  EXPECT_EQ(sent("recursive_doubling", 4000, 4), 8000u);
  EXPECT_EQ(sent("central", 4000, 4), 12000u);
  // Three blocks among four ranks: each of the first three begins with one.
  EXPECT_EQ(sent("ring", 3 * 260, 260), 6u * 260 - 260);
  EXPECT_EQ(sent("ring", 0, 4), 0u);
}

TEST(Expectation, OfSmallSegmentsOverlapsMoreOfALongMessage) {
  selection::Topology topology{.size = 2, .hosts = {0, 1}};
  topology.model.network = {
      .receiver_per_byte = 1, .wire_per_byte = 1, .longest_short = selection::kNeverAsks};
  selection::Chooser chooser(topology);
  schedule::CallKey key{.algorithm = "ring"};
  const double whole = chooser.expect(key, 1 << 20, {.segment = 1 << 20}).value().seconds;
  const double in_pieces = chooser.expect(key, 1 << 20, {.segment = 1 << 17}).value().seconds;
  EXPECT_LT(in_pieces, 0.8 * whole);
}

// If ranks share cores, the latency is the context switch between ranks.
TEST(Expectation, InSharedMemoryCountsWaitsWhereRanksShareCores) {
  selection::Topology topology{.size = 4, .shares_memory = true};
  topology.model.cores = 2;
  topology.model.memory = {};
  topology.model.wake = 1e-6;
  selection::Chooser chooser(topology);
  EXPECT_TRUE(chooser.expect({}, 0, kFloats).value().in_shared_memory);
  EXPECT_DOUBLE_EQ(seconds_of(chooser, 0), 1e-6);
}

TEST(Expectation, ChangesNoChoice) {
  for (const std::uint64_t bytes : {0u, 24u, 70'000u, 9'000'000u}) {
    selection::Chooser asked({.size = 6}), other({.size = 6});
    ASSERT_TRUE(asked.expect({}, bytes, {.block = 4, .segment = 4096}).ok());
    EXPECT_EQ(asked.choose({}, bytes).value(), other.choose({}, bytes).value()) << bytes;
  }
}

TEST(Expectation, ServesAsManyRanksAsAreNotPlayed) {
  selection::Chooser chooser({.size = 200, .hosts = hosts_with(200, 8)});
  schedule::CallKey key{.algorithm = "ring"};
  const selection::Expectation expected = chooser.expect(key, 1 << 20, kFloats).value();
  EXPECT_GT(expected.seconds, 0);
  EXPECT_NEAR(static_cast<double>(expected.most_sent), 2 * 199.0 / 200 * (1 << 20), 1);
}

TEST(Expectation, FailsAsTheChoiceDoes) {
  selection::Chooser chooser({.size = 4});
  schedule::CallKey key{.algorithm = "rnig"};
  EXPECT_NE(chooser.expect(key, 8, kFloats).status().message().find("did you mean 'ring'?"),
            std::string::npos);
}

}  // namespace
}  // namespace kolo
