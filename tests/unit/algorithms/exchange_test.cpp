// Claims about the exchange algorithms besides their steps and bytes: communicating pairs, lengths of
// dependency chains, lengths of messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

std::vector<schedule::Schedule> schedules_of(schedule::Collective collective, std::string_view text,
                                             int size) {
  return all_ranks(algorithms::parse_algorithm(collective, text).value(), size);
}

schedule::ScheduleTotals totals_of(schedule::Collective collective, std::string_view text, int size) {
  const auto schedules = schedules_of(collective, text, size);
  return schedule::count_totals(schedules, std::vector<std::uint64_t>(schedule::part_count(schedules[0]), 1));
}

std::set<int> receivers_of(const schedule::Schedule& schedule) {
  std::set<int> peers;
  for (const schedule::Step& step : schedule.steps) {
    if (step.kind == schedule::StepKind::send) peers.insert(step.peer);
  }
  return peers;
}

std::string refusal(schedule::Collective collective, std::string_view text, int size) {
  const algorithms::ConfiguredAlgorithm configured = algorithms::parse_algorithm(collective, text).value();
  return algorithms::supports(*configured.algorithm, {collective, 0, size, 0, configured.arguments, {}})
      .message();
}

TEST(BidirectionalRing, HasHalfTheRoundsOfTheRingAndTheSameNeighbours) {
  for (int size = 2; size <= 33; ++size) {
    const auto half = static_cast<std::uint64_t>(size / 2);
    EXPECT_EQ(totals_of(schedule::Collective::all_gather, "bidirectional_ring", size).rounds, half);
    // If both sums arrive at once, they are added one after the other.
    const auto reducing = static_cast<std::uint64_t>((size + 1) / 2);
    EXPECT_EQ(totals_of(schedule::Collective::reduce_scatter, "bidirectional_ring", size).rounds, reducing);
    EXPECT_EQ(totals_of(schedule::Collective::all_reduce, "bidirectional_ring", size).rounds,
              reducing + half);
    for (const schedule::Schedule& schedule :
         schedules_of(schedule::Collective::all_reduce, "bidirectional_ring", size)) {
      const int before = (schedule.rank + size - 1) % size;
      const int after = (schedule.rank + 1) % size;
      EXPECT_EQ(receivers_of(schedule), (std::set<int>{before, after}));
    }
  }
}

/// Whether the step waits for the other one, also through steps between them.
bool waits_for(const schedule::Schedule& schedule, std::uint32_t step, std::uint32_t other) {
  if (step <= other) return step == other;
  const auto before = schedule.dependencies_of(schedule.steps[step]);
  return std::ranges::any_of(before, [&](std::uint32_t one) { return waits_for(schedule, one, other); });
}

TEST(Turns, BetweenHostsASendWaitsForTheOneBeforeItOrFollowsItToTheSamePeer) {
  for (const char* name : {"naive", "direct", "halving_doubling", "butterfly:degrees=2-4", "circulant",
                           "binary_blocks", "torus:rows=4"}) {
    const auto variant = algorithms::parse_algorithm(schedule::Collective::all_reduce, name).value();
    for (const schedule::Schedule& schedule : all_ranks(variant, 8, 0, {0, 1, 2, 3, 4, 5, 6, 7})) {
      std::optional<std::uint32_t> last;
      for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
        if (schedule.steps[i].kind != schedule::StepKind::send) continue;
        if (last && schedule.steps[*last].peer != schedule.steps[i].peer) {
          EXPECT_TRUE(waits_for(schedule, i, *last)) << name << ", rank " << schedule.rank << ", step " << i;
        }
        last = i;
      }
    }
  }
}

TEST(Turns, OnOneHostNoSendWaitsForAnother) {
  for (const char* name : {"naive", "direct", "halving_doubling", "butterfly:degrees=2-4", "circulant"}) {
    for (const schedule::Schedule& schedule : schedules_of(schedule::Collective::all_reduce, name, 8)) {
      for (const schedule::Step& step : schedule.steps) {
        if (step.kind != schedule::StepKind::send) continue;
        for (const std::uint32_t before : schedule.dependencies_of(step)) {
          EXPECT_NE(schedule.steps[before].kind, schedule::StepKind::send) << name;
        }
      }
    }
  }
}

TEST(DirectExchange, IsOneRoundAHalf) {
  for (int size = 2; size <= 17; ++size) {
    EXPECT_EQ(totals_of(schedule::Collective::all_reduce, "naive", size).rounds, 1u);
    EXPECT_EQ(totals_of(schedule::Collective::reduce_scatter, "direct", size).rounds, 1u);
    EXPECT_EQ(totals_of(schedule::Collective::all_reduce, "direct", size).rounds, 2u);
    EXPECT_EQ(totals_of(schedule::Collective::all_reduce, "parameter_server", size).rounds, 2u);
  }
}

TEST(ParameterServer, WithOneServerCostsWhatTheCentralDriverDoes) {
  for (int size = 1; size <= 17; ++size) {
    const auto one = totals_of(schedule::Collective::all_reduce, "parameter_server:servers=1", size);
    const auto central = totals_of(schedule::Collective::all_reduce, "central", size);
    EXPECT_EQ(one.steps, central.steps);
    EXPECT_EQ(one.max_sent, central.max_sent);
    EXPECT_EQ(one.max_link, central.max_link);
  }
}

TEST(Circulant, SendsOneMessageARoundWhateverTheSize) {
  for (int size = 1; size <= 64; ++size) {
    const auto rounds = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(size) - 1));
    for (const schedule::Collective collective :
         {schedule::Collective::reduce_scatter, schedule::Collective::all_gather}) {
      const auto totals = totals_of(collective, "circulant", size);
      EXPECT_LE(totals.rounds, rounds);
      EXPECT_EQ(totals.messages, rounds * static_cast<std::uint64_t>(size));
    }
  }
}

TEST(Butterfly, OfOneLayerIsDirectAndOfTwosIsHalving) {
  const auto direct = schedules_of(schedule::Collective::all_reduce, "butterfly:degrees=6", 6);
  for (const schedule::Schedule& schedule : direct) EXPECT_EQ(receivers_of(schedule).size(), 5u);
  const auto halving = schedules_of(schedule::Collective::all_reduce, "halving_doubling", 8);
  EXPECT_TRUE(
      same_steps(schedules_of(schedule::Collective::all_reduce, "butterfly:degrees=2-2-2", 8), halving));
  for (const schedule::Schedule& schedule : halving) {
    EXPECT_EQ(receivers_of(schedule),
              (std::set<int>{schedule.rank ^ 1, schedule.rank ^ 2, schedule.rank ^ 4}));
    EXPECT_EQ(schedule.scratch_chunks, 0u);
  }
}

TEST(BinaryBlocks, IsHalvingDoublingForPowersOfTwo) {
  for (const int size : {1, 2, 4, 16}) {
    EXPECT_TRUE(same_steps(schedules_of(schedule::Collective::all_reduce, "binary_blocks", size),
                           schedules_of(schedule::Collective::all_reduce, "halving_doubling", size)));
  }
}

TEST(Torus, TalksAlongItsRowAndItsColumn) {
  for (const schedule::Schedule& schedule :
       schedules_of(schedule::Collective::all_reduce, "torus:rows=3", 12)) {
    const int row = schedule.rank / 4;
    const int column = schedule.rank % 4;
    EXPECT_EQ(receivers_of(schedule),
              (std::set<int>{row * 4 + (column + 1) % 4, (row + 1) % 3 * 4 + column}));
  }
  // As close to a square as N allows.
  EXPECT_TRUE(same_steps(schedules_of(schedule::Collective::all_reduce, "torus", 12),
                         schedules_of(schedule::Collective::all_reduce, "torus:rows=3", 12)));
  EXPECT_TRUE(same_steps(schedules_of(schedule::Collective::all_reduce, "torus", 7),
                         schedules_of(schedule::Collective::all_reduce, "ring", 7)));
}

TEST(Arguments, ThatDoNotFitTheRanksAreRefusedWithTheReason) {
  EXPECT_EQ(refusal(schedule::Collective::all_reduce, "torus:rows=3", 8),
            "all_reduce algorithm 'torus:rows=3' needs rows that divide the 8 ranks");
  EXPECT_EQ(refusal(schedule::Collective::all_reduce, "parameter_server:servers=9", 8),
            "all_reduce algorithm 'parameter_server:servers=9' needs no more servers than the 8 ranks");
  for (const schedule::Collective collective :
       {schedule::Collective::all_reduce, schedule::Collective::reduce_scatter,
        schedule::Collective::all_gather}) {
    for (const char* text : {"butterfly:degrees=2-3", "butterfly:degrees=0", "butterfly:degrees=8-0",
                             "butterfly:degrees=2147483647-2147483647"}) {
      EXPECT_EQ(refusal(collective, text, 8), std::string(schedule::name_of(collective)) + " algorithm '" +
                                                  text +
                                                  "' needs degrees whose product is the number of ranks, 8");
    }
  }
}

}  // namespace
}  // namespace kolo
