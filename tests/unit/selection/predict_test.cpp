// The time of schedules, by a cost model with round numbers.
#include "selection/predict.hpp"

#include <gtest/gtest.h>

#include <ctime>

#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

/// A cost model in which only the costs set by a test are not 0.
selection::CostModel free_of_charge(double cores = 64) {
  selection::CostModel model;
  model.reduce_per_byte = model.copy_per_byte = 0;
  model.cores = cores;
  model.segment_bytes = 1e12;
  return model;
}

double time_of(std::string_view text, int size, std::uint64_t bytes, const selection::CostModel& model,
               schedule::Collective collective = schedule::Collective::all_reduce,
               const std::vector<int>& hosts = {}, const selection::BandwidthMatrix& bandwidth = {}) {
  const algorithms::ConfiguredAlgorithm algorithm = algorithms::parse_algorithm(collective, text).value();
  const std::vector<schedule::Schedule> schedules = all_ranks(algorithm, size, 0, hosts);
  const std::uint32_t parts = schedule::part_count(schedules[0]);
  return selection::predict(schedules, std::vector<std::uint64_t>(parts, bytes / parts), hosts, model,
                            bandwidth);
}

std::vector<int> one_rank_a_host(int size) {
  std::vector<int> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back(r);
  return hosts;
}

TEST(Predict, OneRankTakesNoTime) {
  EXPECT_EQ(time_of("ring", 1, 800, free_of_charge()), 0);
}

TEST(Predict, LatencyCountsOnceForEachStepOfTheRing) {
  selection::CostModel model = free_of_charge();
  model.memory.latency = 1;
  for (const int n : {2, 3, 5, 8}) EXPECT_DOUBLE_EQ(time_of("ring", n, 0, model), 2.0 * (n - 1)) << n;
}

TEST(Predict, TheWireCarriesTwiceNMinusOneNthsOfTheRingsData) {
  selection::CostModel model = free_of_charge();
  model.network.wire_per_byte = 1;
  for (const int n : {2, 4, 8}) {
    EXPECT_DOUBLE_EQ(time_of("ring", n, 800, model, schedule::Collective::all_reduce, one_rank_a_host(n)),
                     2.0 * (n - 1) * 800 / n);
  }
}

TEST(Predict, MorePiecesLetResultsLeaveEarlier) {
  selection::CostModel model = free_of_charge();
  model.network.wire_per_byte = 1;
  model.segment_bytes = 10;
  const std::vector<int> hosts = one_rank_a_host(2);
  const std::vector<schedule::Schedule> schedules =
      all_ranks(algorithms::parse_algorithm(schedule::Collective::all_reduce, "central").value(), 2);
  const std::vector<std::uint64_t> part{800};
  // All data arrives, then the last piece is sent back.
  EXPECT_DOUBLE_EQ(selection::predict(schedules, part, hosts, model), 800 + 800 / 8.0);
  EXPECT_DOUBLE_EQ(selection::predict(schedules, part, hosts, model, {}, {.pieces = 100}), 800 + 800 / 80.0);
  EXPECT_DOUBLE_EQ(selection::predict(schedules, part, hosts, model, {}, {.pieces = 100, .total_pieces = 12}),
                   800 + 800 / 4.0);
}

TEST(Predict, TheDriversLinkCarriesEverything) {
  selection::CostModel model = free_of_charge();
  model.network.wire_per_byte = 1;
  for (const int n : {2, 4, 8}) {
    EXPECT_DOUBLE_EQ(time_of("central", n, 800, model, schedule::Collective::all_reduce, one_rank_a_host(n)),
                     2.0 * (n - 1) * 800);
  }
}

TEST(Predict, ASlowHostsLinkIsSharedByAllItsFlows) {
  // Bytes a second: 10 for three hosts, 1 for the last.
  selection::BandwidthMatrix bandwidth(4, std::vector<double>(4, 10));
  for (std::size_t host = 0; host < 3; ++host) bandwidth[host][3] = bandwidth[3][host] = 1;
  const auto time = [&](std::string_view text) {
    return time_of(text, 4, 4800, free_of_charge(), schedule::Collective::all_reduce, one_rank_a_host(4),
                   bandwidth);
  };
  // A ring is as fast as its slowest link. `direct` sends the same bytes.
  EXPECT_NEAR(time("ring"), 1.5 * 4800, 1);
  EXPECT_NEAR(time("direct"), 1.5 * 4800, 0.2 * 4800);
  // The slow host gets the last share's results after all its data is sent. In pieces, both directions
  // overlap.
  EXPECT_NEAR(time("parameter_server:spared=3"), 4800 * (1 + 1.0 / 3), 0.1 * 4800);
  EXPECT_NEAR(time("parameter_server:spared=3:chunks=16"), 1.05 * 4800, 0.1 * 4800);
  // Fast hosts do not wait for data to the slow host.
  EXPECT_GT(time("parameter_server:spared=2:chunks=16"), 1.5 * 4800);
}

TEST(Predict, ASlowPairIsSlowThoughItsHostsAreNot) {
  selection::BandwidthMatrix bandwidth(4, std::vector<double>(4, 10));
  bandwidth[1][2] = 1;
  const auto time = [&](std::string_view text) {
    return time_of(text, 4, 4000, free_of_charge(), schedule::Collective::all_reduce, one_rank_a_host(4),
                   bandwidth);
  };
  EXPECT_NEAR(time("ring"), 6000, 1);
  EXPECT_NEAR(time("ring:order=0-2-1-3"), 600, 1);
}

TEST(Predict, RanksOfAHostUseMemoryAndOthersTheNetwork) {
  selection::CostModel model = free_of_charge();
  model.memory.latency = 1;
  model.network.latency = 100;
  EXPECT_DOUBLE_EQ(time_of("ring", 2, 8, model), 2);
  EXPECT_DOUBLE_EQ(time_of("ring", 2, 8, model, schedule::Collective::all_reduce, {0, 1}), 200);
}

TEST(Predict, FewerCoresThanRanksTakeTurns) {
  selection::CostModel model = free_of_charge(8);
  model.memory.overhead = 1;
  const double enough = time_of("ring", 8, 8, model);
  model.cores = 2;
  EXPECT_GT(time_of("ring", 8, 8, model), 3 * enough);
}

TEST(Predict, CoresThatNobodyNeedsChangeNothing) {
  selection::CostModel model = selection::typical_cost_model();
  const auto times = [&](double cores) {
    model.cores = cores;
    std::vector<double> all;
    for (const char* algorithm : {"ring", "direct", "central"}) {
      all.push_back(time_of(algorithm, 8, 100'000, model));
      all.push_back(
          time_of(algorithm, 8, 100'000, model, schedule::Collective::all_reduce, {0, 0, 0, 1, 1, 1, 1, 2}));
    }
    return all;
  };
  EXPECT_EQ(times(8), times(65536));
  // Predicting them is also fast: cores are not scanned for every event.
  const auto processor_time = [&](double cores) {
    model.cores = cores;
    const std::clock_t begin = std::clock();
    time_of("ring", 128, 8, model);
    return static_cast<double>(std::clock() - begin);
  };
  const double with_enough = processor_time(128);
  EXPECT_LT(processor_time(65536), 10 * with_enough);
}

TEST(Predict, NoCoreWaitsForABusyRank) {
  selection::CostModel model = free_of_charge(2);
  model.memory.sender_per_byte = 1;
  model.memory.receiver_per_byte = 3;
  // All ranks are always busy, so both cores are: the time is half of the total work.
  for (const int n : {4, 6, 8}) {
    EXPECT_NEAR(time_of("ring", n, 800, model), 2.0 * (n - 1) * 800 * 4 / 2, 800.0) << n;
    EXPECT_NEAR(time_of("direct", n, 800, model), 2.0 * (n - 1) * 800 * 4 / 2, 800.0) << n;
  }
}

TEST(Predict, WhoWaitedIsWoken) {
  selection::CostModel model = free_of_charge();
  model.wake = 1;
  // Each step of the ring waits for the step before. The driver waits only for the first of its peers'
  // messages.
  model.memory.latency = 10;
  EXPECT_DOUBLE_EQ(time_of("ring", 3, 0, model), 4 * 11);
  model.memory.overhead = 2;
  EXPECT_DOUBLE_EQ(time_of("central", 3, 0, model), (2 + 10 + 1 + 2 * 2) + (2 * 2 + 10 + 1 + 2));
}

TEST(Predict, LongMessagesCostTheirAgreement) {
  selection::CostModel model = free_of_charge();
  model.memory.long_overhead = 1;
  EXPECT_DOUBLE_EQ(time_of("central", 2, 8192, model), 0);
  EXPECT_DOUBLE_EQ(time_of("central", 2, 8200, model),
                   4);  // two messages, with the overhead on both sides of each
}

TEST(Predict, LongMessagesFlowInPieces) {
  selection::CostModel model = free_of_charge();
  model.network.wire_per_byte = 1;
  const auto relay = [&] {
    return time_of("binomial", 4, 8000, model, schedule::Collective::broadcast, one_rank_a_host(4));
  };
  // 0 to 2, then 2 to 3 and 0 to 1 concurrently.
  EXPECT_DOUBLE_EQ(relay(), 2 * 8000.0);
  model.segment_bytes = 1000;
  EXPECT_LE(relay(), 2 * 8000.0 + 1000);  // the root's own link carries the data twice in any case
  // In a reduction the first pieces are sent up while the last pieces still arrive from below.
  model.segment_bytes = 1e12;
  const double whole = time_of("binomial", 8, 8000, model, schedule::Collective::reduce, one_rank_a_host(8));
  model.segment_bytes = 1000;
  EXPECT_LE(time_of("binomial", 8, 8000, model, schedule::Collective::reduce, one_rank_a_host(8)), whole);
}

TEST(Predict, ReducingAndCopyingCostWhatTheModelSays) {
  selection::CostModel model = free_of_charge();
  model.reduce_per_byte = 1;
  EXPECT_DOUBLE_EQ(time_of("central", 3, 100, model), 200);
  model = free_of_charge();
  model.copy_per_byte = 1;
  EXPECT_DOUBLE_EQ(time_of("direct", 2, 100, model, schedule::Collective::all_to_all),
                   50);  // each rank copies its own part
}

}  // namespace
}  // namespace kolo
