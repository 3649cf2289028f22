// The checker's refusals: one deliberately broken schedule for each reason; the refusal names the right rank
// and step.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "schedule/builder.hpp"
#include "schedule/checker.hpp"

namespace kolo {
namespace {

using Counts = std::vector<std::uint64_t>;
using Schedules = std::vector<schedule::Schedule>;

Schedules all_ranks(schedule::Collective collective, std::string_view name, int size, int root = 0) {
  Schedules schedules;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(
        algorithms::find_algorithm(collective, name)->generate({collective, rank, size, root}));
  }
  return schedules;
}

Schedules ring(int size = 3) {
  return all_ranks(schedule::Collective::all_reduce, "ring", size);
}
Schedules central() {
  return all_ranks(schedule::Collective::all_reduce, "central", 3);
}

void drop_dependencies(schedule::Step& step) {
  step.dependency_count = 0;
}

/// Removes a step on which no other step depends.
void drop_step(schedule::Schedule& schedule, std::uint32_t step) {
  schedule.steps.erase(schedule.steps.begin() + step);
  for (std::uint32_t& d : schedule.dependencies) d -= d > step ? 1 : 0;
}

/// The schedule is refused, and the refusal names this step and reason.
void expect_refused(const Schedules& schedules, const Counts& counts, int rank, int step,
                    const std::string& reason, bool rank_ordered = false) {
  const Status status = schedule::check_schedules(schedules, counts, rank_ordered);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::invalid_argument);
  std::string blame = "rank " + std::to_string(rank);
  blame += step < 0 ? ": " : ", step " + std::to_string(step) + ": ";
  EXPECT_NE(status.message().find(blame), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  EXPECT_EQ(status.context().peer, rank);
  EXPECT_EQ(status.context().step, step);
  EXPECT_EQ(status.context().collective, schedule::name_of(schedules[0].collective));
}

// Rank r of the ring of three, for reference (see to_string()):
//   0: send to r+1: input[r-1]              4: send to r+1: output[r]             after 3
//   1: recv_reduce: output[r-2]             5: recv: output[r-1]                  after 0
//   2: send to r+1: output[r-2] after 1     6: send to r+1: output[r-1]           after 5
//   3: recv_reduce: output[r] (completes)   7: recv: output[r-2]                  after 2

TEST(Checker, AcceptsAndCounts) {
  schedule::ScheduleTotals totals;
  ASSERT_TRUE(schedule::check_schedules(ring(), Counts{5, 1, 2}, false, &totals).ok());
  EXPECT_EQ(totals.messages, 12u);
  EXPECT_EQ(totals.rounds, 4u);
  EXPECT_EQ(totals.max_sent, 2 * 8u - 2 - 1);  // rank 1 does not send its own chunk and the next rank's
}

TEST(Checker, KnowsTheRoundsOfTheCentralDriver) {
  schedule::ScheduleTotals totals;
  ASSERT_TRUE(schedule::check_schedules(central(), Counts{10}, true, &totals).ok());
  EXPECT_EQ(totals.messages, 4u);
  EXPECT_EQ(totals.rounds, 3u);
  EXPECT_EQ(totals.max_sent, 20u);
}

TEST(Checker, RefusesADroppedSend) {
  Schedules schedules = ring();
  drop_step(schedules[1], 6);
  // Rank 2's last receive from rank 1 waits for ever.
  expect_refused(schedules, {1, 1, 1}, 2, 7, "no send of its peer meets this receive");
}

TEST(Checker, RefusesADroppedReceive) {
  Schedules schedules = ring();
  drop_step(schedules[1], 7);
  expect_refused(schedules, {1, 1, 1}, 0, 6, "no receive of its peer meets this send");
}

TEST(Checker, RefusesADroppedCopy) {
  Schedules schedules = all_ranks(schedule::Collective::all_gather, "direct", 3);
  drop_step(schedules[2], 4);
  expect_refused(schedules, {1, 1, 1}, 2, -1, "output[2] is not written by any step");
}

TEST(Checker, RefusesASwappedPeer) {
  Schedules schedules = ring();
  schedules[1].steps[4].peer = 0;
  const Status status = schedule::check_schedules(schedules, Counts{1, 1, 1});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("rank 1, step 4: send to 0"), std::string::npos) << status.message();
}

TEST(Checker, RefusesPeersThatDoNotExist) {
  for (const int peer : {-1, 3}) {
    Schedules schedules = ring();
    schedules[1].steps[4].peer = peer;
    expect_refused(schedules, {1, 1, 1}, 1, 4, "there is no rank " + std::to_string(peer));
  }
  Schedules schedules = ring();
  schedules[1].steps[4].peer = 1;
  expect_refused(schedules, {1, 1, 1}, 1, 4, "a message to oneself");
}

TEST(Checker, RefusesADoubledContribution) {
  Schedules schedules = central();
  // Rank 0 adds its input a second time: output = output + input.
  schedule::ScheduleBuilder builder(schedule::Collective::all_reduce, 0, 3, 0, 1);
  builder.recv_reduce(1, schedule::output(0), schedule::input(0), false);
  builder.reduce(schedule::output(0), schedule::output(0), schedule::input(0), false);
  builder.recv_reduce(2, schedule::output(0), schedule::output(0), true);
  builder.send(1, schedule::output(0));
  builder.send(2, schedule::output(0));
  schedules[0] = std::move(builder).finish();
  expect_refused(schedules, {4}, 0, 1, "adds the contribution of rank 0 a second time");
}

TEST(Checker, RefusesAMissingContribution) {
  Schedules schedules = central();
  schedules[0].steps[1].kind = schedule::StepKind::recv;  // overwrites instead of adding
  schedules[0].steps[1].completes = false;
  expect_refused(schedules, {4}, 0, 1, "output[0] ends without the contribution of rank 0");
}

TEST(Checker, RefusesAWrongOrderOnlyWhenRankOrdered) {
  Schedules schedules = central();
  schedules[0].steps[0].incoming_first = true;
  EXPECT_TRUE(schedule::check_schedules(schedules, Counts{4}, false).ok());
  expect_refused(schedules, {4}, 0, 0, "it combines rank 1 with rank 0: not in rank order", true);
  // The tree of root 1 wraps around.
  expect_refused(all_ranks(schedule::Collective::reduce, "binomial", 4, 1), {4}, 3, 0,
                 "it combines rank 3 with rank 0", true);
}

TEST(Checker, RefusesACyclicWait) {
  // Two ranks exchange data in place: each receives only after its own data has been received.
  Schedules schedules;
  for (int rank = 0; rank < 2; ++rank) {
    schedule::ScheduleBuilder builder(schedule::Collective::all_reduce, rank, 2, 0, 1);
    builder.send(1 - rank, schedule::input(0));
    builder.recv_reduce(1 - rank, schedule::output(0), schedule::input(0), true);
    schedules.push_back(std::move(builder).finish());
  }
  expect_refused(schedules, {4}, 0, 0,
                 "the message of rank 0 step 0 to rank 1 step 1 waits for "
                 "the message of rank 1 step 0 to rank 0 step 1 waits for "
                 "the message of rank 0 step 0 to rank 1 step 1");
}

TEST(Checker, RefusesAPrefixThatHoldsALaterRank) {
  std::vector<schedule::Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    schedule::ScheduleBuilder builder(schedule::Collective::scan, rank, 2, 0, 1, 1);
    builder.send(1 - rank, schedule::input(0));
    const schedule::ChunkRange incoming = schedule::scratch(0, schedule::input(0));
    builder.recv(1 - rank, incoming);
    builder.reduce(schedule::output(0), rank == 0 ? schedule::input(0) : incoming,
                   rank == 0 ? incoming : schedule::input(0), true);
    schedules.push_back(std::move(builder).finish());
  }
  const std::vector<std::uint64_t> counts{4};
  const std::string why = schedule::check_schedules(schedules, counts, true).message();
  EXPECT_NE(why.find("output[0] ends with the sum of ranks 0 to 1 instead of ranks 0 to 0"),
            std::string::npos)
      << why;
}

TEST(Checker, RefusesARingThatKeepsOnePartialSum) {
  Schedules schedules;
  for (int rank = 0; rank < 4; ++rank) {
    schedule::ScheduleBuilder builder(schedule::Collective::reduce_scatter, rank, 4, 0, 4, 1);
    const auto part = [&](int back) { return static_cast<std::uint32_t>((rank - back + 8) % 4); };
    const auto sum = [&](int back) { return schedule::scratch(0, schedule::input(part(back))); };
    builder.send((rank + 1) % 4, schedule::input(part(1)));
    builder.recv_reduce((rank + 3) % 4, sum(2), schedule::input(part(2)), false);
    builder.send((rank + 1) % 4, sum(2));
    builder.recv_reduce((rank + 3) % 4, sum(3), schedule::input(part(3)), false);
    builder.send((rank + 1) % 4, sum(3));
    builder.recv_reduce((rank + 3) % 4, schedule::output(0), schedule::input(part(4)), true);
    schedules.push_back(std::move(builder).finish());
  }
  const Status status = schedule::check_schedules(schedules, Counts{1, 1, 1, 1});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("waits for itself"), std::string::npos) << status.message();
}

TEST(Checker, RefusesADataRace) {
  Schedules schedules = ring();
  drop_dependencies(schedules[2].steps[2]);
  expect_refused(schedules, {1, 1, 1}, 2, 2, "a data race: it touches the same memory as step 1");
}

TEST(Checker, RefusesADataRaceThatIsOneInPlaceOnly) {
  Schedules schedules = ring();
  drop_dependencies(schedules[2].steps[5]);  // output[1], which is input[1] that step 0 sends
  expect_refused(schedules, {1, 1, 1}, 2, 5, "a data race: it touches the same memory in place as step 0");
}

TEST(Checker, AcceptsTheSameRaceWhereNothingIsInPlace) {
  EXPECT_TRUE(
      schedule::check_schedules(all_ranks(schedule::Collective::all_to_all, "direct", 4), Counts{1, 1, 1, 1})
          .ok());
  Schedules schedules = all_ranks(schedule::Collective::all_to_all, "direct", 4);
  for (schedule::Schedule& schedule : schedules) schedule.out_of_place_only = false;
  expect_refused(schedules, {1, 1, 1, 1}, 0, 3, "in place");
}

TEST(Checker, RefusesRangesOutOfBounds) {
  Schedules schedules = ring();
  schedules[1].steps[5].dst.begin = 3;
  expect_refused(schedules, {1, 1, 1}, 1, 5, "out of bounds: output has 3 chunks");
  schedules[1].steps[5].dst = {schedule::BufferName::output, ~std::uint32_t{0},
                               2};  // the sum would wrap around
  expect_refused(schedules, {1, 1, 1}, 1, 5, "out of bounds");
  schedules = all_ranks(schedule::Collective::reduce_scatter, "ring", 3);
  schedules[1].scratch_chunks = 0;
  expect_refused(schedules, {1, 1, 1}, 1, 1, "out of bounds: scratch has 0 chunks");
  schedules = all_ranks(schedule::Collective::reduce_scatter, "ring", 3);
  schedules[1].steps[1].dst.like_begin = 3;
  expect_refused(schedules, {1, 1, 1}, 1, 1, "its scratch is like input[3], out of bounds");
  schedules = all_ranks(schedule::Collective::gather, "direct", 3, 0);
  schedules[1].steps[0].a.buffer = schedule::BufferName::output;  // only the root has an output
  expect_refused(schedules, {1, 1, 1}, 1, 0, "out of bounds: output has 0 chunks");
}

TEST(Checker, RefusesScratchThatIsNotLaidOutAsItSays) {
  const Schedules right = all_ranks(schedule::Collective::reduce_scatter, "circulant", 3);
  Schedules schedules = right;
  schedules[1].scratch_like[0].begin = 3;
  expect_refused(schedules, {1, 1, 1}, 1, -1, "laid out like 3 chunks from input[3], of which there are 3");
  schedules = right;
  schedules[1].scratch_chunks = 2;
  expect_refused(schedules, {1, 1, 1}, 1, -1, "its scratch of 2 slots is laid out like 3 chunks");
  schedules = right;
  schedules[1].scratch_like[0].buffer = schedule::BufferName::scratch;
  expect_refused(schedules, {1, 1, 1}, 1, -1, "must be laid out like input or output");
  schedules = right;
  schedules[1].steps[0].dst.like_begin = 2;
  expect_refused(schedules, {1, 1, 1}, 1, 0, "like input[2], but the slot is laid out like input[1]");
  schedules = right;
  schedules[1].steps[0].dst.like_buffer = schedule::BufferName::output;
  expect_refused(schedules, {1, 1, 1}, 1, 0, "like output[1], but the slot is laid out like input[1]");
}

/// One rank's all_reduce in three chunks through scratch: slot 0 is as large as any chunk, slots 1 to 3 are
/// laid out like input[2], input[0], input[1], slots 4 and 5 like output[0], output[1].
struct ThroughRuns {
  ThroughRuns() : builder(schedule::Collective::all_reduce, 0, 1, 0, 3, 1) {
    builder.lay_scratch_like({schedule::BufferName::input, 2, 3});
    builder.lay_scratch_like(schedule::output(0, 2));
  }
  void pass(schedule::ChunkRange slots, schedule::ChunkRange from) {
    builder.copy(slots, from);
    builder.copy(schedule::output(from.begin, from.count), slots);
  }
  Schedules done() && { return {std::move(builder).finish()}; }

  schedule::ScheduleBuilder builder;
};

TEST(Checker, AcceptsScratchInEveryRunOfSlots) {
  for (const Counts& counts : {Counts{1, 1, 1}, Counts{5, 0, 2}, Counts{0, 7, 3}, Counts{2, 3, 9}}) {
    ThroughRuns alike;
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk)
      alike.pass(schedule::scratch(0, schedule::input(chunk)), schedule::input(chunk));
    EXPECT_TRUE(schedule::check_schedules(std::move(alike).done(), counts).ok());

    ThroughRuns laid_out;
    laid_out.pass(schedule::scratch(1, schedule::input(2)), schedule::input(2));
    laid_out.pass(schedule::scratch(2, schedule::input(0, 2)), schedule::input(0, 2));
    EXPECT_TRUE(schedule::check_schedules(std::move(laid_out).done(), counts).ok());

    // Written as one piece and read slot by slot, which works only without gaps between slots.
    ThroughRuns split;
    split.builder.copy(schedule::scratch(4, schedule::output(0, 2)), schedule::input(0, 2));
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      split.builder.copy(schedule::output(chunk), schedule::scratch(4 + chunk, schedule::output(chunk)));
    }
    split.pass(schedule::scratch(0, schedule::input(2)), schedule::input(2));
    EXPECT_TRUE(schedule::check_schedules(std::move(split).done(), counts).ok());
  }
}

TEST(Checker, RefusesScratchThatReachesFromOneRunOfSlotsIntoTheNext) {
  const auto refused = [](schedule::ChunkRange slots, schedule::ChunkRange from, const std::string& why) {
    ThroughRuns crossing;
    crossing.pass(slots, from);
    expect_refused(std::move(crossing).done(), {1, 1, 1}, 0, 0, why);
  };
  const std::string reaches = "its scratch reaches from one run of slots into the next, which begins at ";
  refused(schedule::scratch(0, schedule::input(1, 2)), schedule::input(1, 2), reaches + "1");
  refused(schedule::scratch(0, schedule::input(0, 3)), schedule::input(0, 3), reaches + "1");
  refused(schedule::scratch(3, schedule::input(1, 2)), schedule::input(1, 2), reaches + "4");
  refused(schedule::scratch(2, schedule::input(0, 3)), schedule::input(0, 3), reaches + "4");
  refused(schedule::scratch(4, schedule::input(0)), schedule::input(0),
          "like input[0], but the slot is laid out like output[0]");
  refused(schedule::scratch(3, schedule::input(2)), schedule::input(2),
          "like input[2], but the slot is laid out like input[1]");
}

TEST(Checker, RefusesRunsOfSlotsThatScratchLacksOrThatAreLikeNothing) {
  const auto refused = [](auto&& change, const std::string& why) {
    ThroughRuns runs;
    runs.pass(schedule::scratch(0, schedule::input(0)), schedule::input(0));
    Schedules schedules = std::move(runs).done();
    change(schedules[0]);
    expect_refused(schedules, {1, 1, 1}, 0, -1, why);
  };
  refused([](schedule::Schedule& schedule) { schedule.scratch_chunks = 4; },
          "its scratch of 4 slots is laid out like 5 chunks");
  refused([](schedule::Schedule& schedule) { schedule.scratch_like[1].begin = 3; },
          "laid out like 2 chunks from output[3], of which there are 3");
  refused([](schedule::Schedule& schedule) { schedule.scratch_like[1].count = 4; },
          "laid out like 4 chunks from output[0], of which there are 3");
  refused(
      [](schedule::Schedule& schedule) { schedule.scratch_like[1].buffer = schedule::BufferName::scratch; },
      "must be laid out like input or output");
}

TEST(Checker, RefusesAWriteToTheInput) {
  Schedules schedules = ring();
  schedules[0].steps[5].dst.buffer = schedule::BufferName::input;
  expect_refused(schedules, {1, 1, 1}, 0, 5, "it writes to the input");
}

TEST(Checker, RefusesReadingWhatNothingWrote) {
  Schedules schedules = ring();
  schedules[1].scratch_chunks = 1;
  schedules[1].steps[0].a = schedule::scratch(0, schedule::input(0));
  expect_refused(schedules, {1, 1, 1}, 1, 0, "it reads memory that nothing has written");
}

TEST(Checker, RefusesReadingAnotherSlot) {
  Schedules schedules = all_ranks(schedule::Collective::reduce, "binomial", 4);
  // Rank 2 sums in one slot and forwards the other one.
  schedule::ScheduleBuilder builder(schedule::Collective::reduce, 2, 4, 0, 1, 2);
  builder.recv_reduce(3, schedule::scratch(1, schedule::input(0)), schedule::input(0), false);
  builder.send(0, schedule::scratch(0, schedule::input(0)));
  schedules[2] = std::move(builder).finish();
  expect_refused(schedules, {5}, 2, 1, "it reads memory that nothing has written");
}

TEST(Checker, RefusesMessagesOfDifferentLengths) {
  Schedules schedules = all_ranks(schedule::Collective::reduce_scatter, "direct", 3);
  schedules[0].steps[0].a.begin = 2;  // sends part 2, but rank 1 expects part 1
  expect_refused(schedules, {5, 1, 3}, 1, 2, "it expects 1 elements, but step 0 of rank 0 sends 3");
}

TEST(Checker, RefusesTheWrongChunkOfTheRightLength) {
  Schedules schedules = all_ranks(schedule::Collective::reduce_scatter, "direct", 3);
  schedules[0].steps[0].a.begin = 2;
  expect_refused(schedules, {4, 4, 4}, 1, 4, "part 2, element 0 with part 1, element 0");
  schedules = all_ranks(schedule::Collective::all_gather, "direct", 3);
  std::swap(schedules[0].steps[1].dst, schedules[0].steps[3].dst);
  expect_refused(schedules, {4, 4, 4}, 0, 1,
                 "output[1] ends with part 2, element 0 instead of part 1, element 0");
}

TEST(Checker, RefusesOperandsOfDifferentLengths) {
  Schedules schedules = ring();
  schedules[0].steps[1].a.begin = 0;
  expect_refused(schedules, {5, 1, 3}, 0, 1, "lengths differ: it makes 1 elements of 5");
}

TEST(Checker, RefusesAnOperandThatOverlapsTheResult) {
  schedule::ScheduleBuilder builder(schedule::Collective::all_reduce, 0, 1, 0, 3);
  builder.copy(schedule::output(0, 3), schedule::input(0, 3));
  builder.copy(schedule::output(0, 2), schedule::output(1, 2));
  const Schedules schedules = {std::move(builder).finish()};
  expect_refused(schedules, {1, 1, 1}, 0, 1, "what it writes overlaps what it reads");
}

TEST(Checker, RefusesAnUnmatchedSend) {
  schedule::ScheduleBuilder builder(schedule::Collective::broadcast, 1, 2, 0, 1);
  builder.recv(0, schedule::output(0));
  builder.send(0, schedule::output(0));
  Schedules broadcast = all_ranks(schedule::Collective::broadcast, "direct", 2);
  broadcast[1] = std::move(builder).finish();
  expect_refused(broadcast, {4}, 1, 1, "no receive of its peer meets this send");
}

TEST(Checker, RefusesCompletesWhereItShouldNotBe) {
  Schedules schedules = ring();
  schedules[2].steps[1].completes = true;
  expect_refused(schedules, {1, 1, 1}, 2, 1,
                 "`completes` is set, but its result lacks the contribution of rank 0");
  schedules = ring();
  schedules[2].steps[5].completes = true;
  expect_refused(schedules, {1, 1, 1}, 2, 5, "`completes` stands on a step that reduces nothing");
}

TEST(Checker, RefusesCompletesMissing) {
  Schedules schedules = ring();
  schedules[2].steps[3].completes = false;
  expect_refused(schedules, {1, 1, 1}, 2, 3, "holds every contribution, but `completes` is not set");
}

TEST(Checker, RefusesDependenciesThatAreNotEarlierSteps) {
  Schedules schedules = ring();
  schedules[1].dependencies[schedules[1].steps[2].first_dependency] = 2;
  expect_refused(schedules, {1, 1, 1}, 1, 2, "it depends on step 2, which is not an earlier one");
  schedules = ring();
  schedules[1].steps[2].first_dependency = 1000;
  expect_refused(schedules, {1, 1, 1}, 1, 2, "its dependencies are out of bounds");
}

TEST(Checker, RefusesReductionsWhereNothingIsReduced) {
  Schedules schedules = all_ranks(schedule::Collective::broadcast, "direct", 2);
  schedules[1].steps[0].kind = schedule::StepKind::recv_reduce;
  schedules[1].steps[0].a = schedule::output(0);
  expect_refused(schedules, {1}, 1, 0, "its collective reduces nothing");
  schedules = ring();
  schedules[1].steps[0].incoming_first = true;
  expect_refused(schedules, {1, 1, 1}, 1, 0, "`incoming_first` stands on a step other than recv_reduce");
}

TEST(Checker, RefusesAnotherRanksData) {
  Schedules schedules = all_ranks(schedule::Collective::all_to_all, "direct", 3);
  std::swap(schedules[0].steps[1].dst, schedules[0].steps[3].dst);
  expect_refused(schedules, {2, 2, 2}, 0, 1, "output[1] ends with the data of rank 2 instead of rank 1");
}

TEST(Checker, RefusesABarrierThatLetsARankGo) {
  Schedules schedules = all_ranks(schedule::Collective::barrier, "dissemination", 4);
  // If the second round does not wait for the first one, it carries no knowledge of rank 3.
  drop_dependencies(schedules[0].steps[2]);
  expect_refused(schedules, {}, 2, 3, "it may leave the barrier before rank 3 has come");
  for (schedule::Schedule& schedule : schedules) schedule.steps.clear();
  expect_refused(schedules, {}, 0, -1, "it may leave the barrier before rank 1 has come");
}

TEST(Checker, RefusesSchedulesThatDoNotBelongTogether) {
  EXPECT_FALSE(schedule::check_schedules({}, Counts{}).ok());
  Schedules schedules = ring();
  std::swap(schedules[0], schedules[1]);
  expect_refused(schedules, {1, 1, 1}, 1, -1, "it stands where the schedule of rank 0 should");
  schedules = ring();
  schedules.pop_back();
  expect_refused(schedules, {1, 1, 1}, 0, -1, "it is for 3 ranks, but there are 2");
  schedules = ring();
  schedules[2].chunks = 1;
  expect_refused(schedules, {1, 1, 1}, 2, -1, "are not those of rank 0");
  expect_refused(ring(), {1, 1}, 0, -1, "it needs 3 part counts, not 2");
  schedules = all_ranks(schedule::Collective::broadcast, "direct", 2);
  for (schedule::Schedule& schedule : schedules) schedule.root = 2;
  expect_refused(schedules, {1}, 0, -1, "there is no rank 2 to be the root");
}

TEST(Checker, ChecksElementsNotOnlyChunks) {
  // Scratch of several slots is packed: reading the second slot of uneven data alone is not its second chunk.
  schedule::ScheduleBuilder builder(schedule::Collective::all_reduce, 0, 1, 0, 2, 2);
  builder.copy(schedule::scratch(0, schedule::input(0, 2)), schedule::input(0, 2));
  builder.copy(schedule::output(0), schedule::scratch(0, schedule::input(0)));
  builder.copy(schedule::output(1), schedule::scratch(1, schedule::input(1)));
  const Schedules schedules = {std::move(builder).finish()};
  EXPECT_TRUE(schedule::check_schedules(schedules, Counts{4, 4}).ok());
  EXPECT_TRUE(schedule::check_schedules(schedules, Counts{4, 3}).ok());
  expect_refused(schedules, {3, 4}, 0, 2, "it reads memory that nothing has written");
}

TEST(Checker, IsQuickForManyRanks) {
  const Schedules schedules = ring(64);
  EXPECT_TRUE(schedule::check_schedules(schedules, Counts(64, 3)).ok());
}

}  // namespace
}  // namespace kolo
