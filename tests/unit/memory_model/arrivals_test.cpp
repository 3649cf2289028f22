// Ranks that share cores: they count their arrivals, the last one works for all, or opens a call or piece for
// those that sum (SliceCounters in engine/shared_memory/slice_counters.hpp, SharedCores in shared_cores.cpp;
// reduce_staged_by_shares() and reduce_staged() in engine/shared_memory), and those that nap or sleep are
// woken (engine/shared_memory/nap.hpp, Team::tell()).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

struct Arrivals {
  Order arrive = acq_rel;
  Order finish = release;
  Order look = acquire;
};

/// A short call of three ranks: the last one reads all contributions, and puts the sum into the place of the
/// first one.
Thread short_call(World& world, Cell arrived, Cell finished, std::vector<Cell> data, std::size_t rank,
                  Arrivals how) {
  const int ranks = static_cast<int>(data.size());
  co_await data[rank].write(1);
  if (co_await arrived.fetch_add(1, how.arrive) == ranks - 1) {
    int sum = 0;
    for (const Cell& one : data) sum += co_await one.read();
    co_await data[0].write(sum);
    co_await finished.store(1, how.finish);
  }
  co_await finished.wait_for(1, how.look);
  const int sum = co_await data[0].read();
  world.require(sum == ranks, "a wrong sum was read");
}

std::string wrong_with_short_calls(Arrivals how) {
  return explore([=](World& world) {
           const Cell arrived = world.cell("arrived");
           const Cell finished = world.cell("finished");
           std::vector<Cell> data;
           for (const char* rank : {"rank 0", "rank 1", "rank 2"})
             data.push_back(world.cell(std::string(rank) + "'s data"));
           for (std::size_t rank = 0; rank < data.size(); ++rank)
             world.run("rank " + std::to_string(rank), short_call(world, arrived, finished, data, rank, how));
         })
      .wrong;
}

TEST(ArrivalsModel, TheLastRankSeesAllContributionsAndAllRanksSeeItsSum) {
  EXPECT_EQ(wrong_with_short_calls({}), "");
  EXPECT_NE(wrong_with_short_calls({.arrive = release}), "");
  EXPECT_NE(wrong_with_short_calls({.arrive = acquire}), "");
  EXPECT_NE(wrong_with_short_calls({.finish = relaxed}), "");
  EXPECT_NE(wrong_with_short_calls({.look = relaxed}), "");
}

struct Opening {
  Order arrive = acq_rel;
  Order open = release;
  Order look = acquire;
  Order finish = acq_rel;
};

/// A short call of two ranks that sum and one that does not. Which one is last is left open: a rank that sums
/// does the call itself, the other one opens it, and one of the ranks that sum takes it.
Thread open_or_sum(World& world, Cell arrived, Cell finished, Cell taken, std::vector<Cell> data,
                   std::size_t rank, bool sums, Opening how) {
  constexpr int kOpen = 1, kFinished = 2;
  const int ranks = static_cast<int>(data.size());
  co_await data[rank].write(1);
  const bool is_last = co_await arrived.fetch_add(1, how.arrive) == ranks - 1;
  bool works = is_last && sums;
  if (is_last && !sums) co_await finished.store(kOpen, how.open);
  if (!is_last && sums) {
    co_await finished.wait_for_at_least(kOpen, how.look);
    if (co_await finished.load(how.look) == kOpen) works = co_await taken.fetch_add(1, relaxed) == 0;
  }
  if (works) {
    int sum = 0;
    for (const Cell& one : data) sum += co_await one.read();
    co_await data[0].write(sum);
    co_await finished.exchange(kFinished, how.finish);
  }
  co_await finished.wait_for(kFinished, how.look);
  const int sum = co_await data[0].read();
  world.require(sum == ranks, "a wrong sum was read");
}

std::string wrong_with_few_that_sum(Opening how) {
  return explore([=](World& world) {
           const Cell arrived = world.cell("arrived");
           const Cell finished = world.cell("finished");
           const Cell taken = world.cell("taken");
           std::vector<Cell> data;
           for (const char* rank : {"rank 0", "rank 1", "rank 2"})
             data.push_back(world.cell(std::string(rank) + "'s data"));
           for (std::size_t rank = 0; rank < data.size(); ++rank) {
             world.run("rank " + std::to_string(rank),
                       open_or_sum(world, arrived, finished, taken, data, rank, rank < 2, how));
           }
         })
      .wrong;
}

TEST(ArrivalsModel, OneOfFewRanksThatSumDoesWhatAnotherRankOpens) {
  EXPECT_EQ(wrong_with_few_that_sum({}), "");
  EXPECT_NE(wrong_with_few_that_sum({.arrive = release}), "");
  EXPECT_NE(wrong_with_few_that_sum({.open = relaxed}), "");
  EXPECT_NE(wrong_with_few_that_sum({.look = relaxed}), "");
  EXPECT_NE(wrong_with_few_that_sum({.finish = relaxed}), "");
}

struct Halves {
  Arrivals orders = {};
  int halves = 2;
  int pieces = 3;
};

/// Pieces of two ranks. The first rank's half also takes the sum, which both ranks read before they arrive at
/// the next piece. `arrived` and `finished`: of each piece.
Thread pass_pieces(World& world, std::vector<Cell> arrived, std::vector<Cell> finished,
                   std::vector<Cell> mine, std::vector<Cell> first, std::vector<Cell> second, Halves how) {
  for (std::size_t t = 0; t < arrived.size(); ++t) {
    const std::size_t half = t % mine.size();
    co_await mine[half].write(static_cast<int>(t) + 1);
    if (co_await arrived[t].fetch_add(1, how.orders.arrive) == 1) {
      const int one = co_await first[half].read();
      const int other = co_await second[half].read();
      co_await first[half].write(one + other);
      co_await finished[t].store(1, how.orders.finish);
    }
    co_await finished[t].wait_for(1, how.orders.look);
    const int sum = co_await first[half].read();
    world.require(sum == 2 * (static_cast<int>(t) + 1), "a sum of another piece was read");
  }
}

std::string wrong_with_halves(Halves how) {
  return explore([=](World& world) {
           std::vector<Cell> arrived, finished, first, second;
           for (int t = 0; t < how.pieces; ++t) {
             arrived.push_back(world.cell("arrived at piece " + std::to_string(t)));
             finished.push_back(world.cell("finished piece " + std::to_string(t)));
           }
           for (int half = 0; half < how.halves; ++half) {
             first.push_back(world.cell("first rank's half " + std::to_string(half)));
             second.push_back(world.cell("second rank's half " + std::to_string(half)));
           }
           world.run("first", pass_pieces(world, arrived, finished, first, first, second, how));
           world.run("second", pass_pieces(world, arrived, finished, second, first, second, how));
         })
      .wrong;
}

TEST(ArrivalsModel, TwoHalvesAreEnoughForPiecesWithOneWait) {
  EXPECT_EQ(wrong_with_halves({}), "");
  EXPECT_NE(wrong_with_halves({.halves = 1}), "");
  EXPECT_NE(wrong_with_halves({.orders = {.arrive = release}}), "");
  EXPECT_NE(wrong_with_halves({.orders = {.finish = relaxed}}), "");
}

struct Slices {
  Arrivals orders = {};
  Order open = release;
  bool waits_for_call = true;  ///< before the second piece, for the end of the call before on all ranks
};

/// A call of one piece by shares, whose sum both ranks read in the first rank's half 0, then one of two
/// pieces in slices: each rank reduces what lies in the other's half, which takes the sum, and takes its own
/// sums from there. The second piece is put down before the first one is reduced.
Thread pass_slices(World& world, std::vector<Cell> arrived, std::vector<Cell> opened,
                   std::vector<Cell> reduced, Cell finished, std::vector<Cell> mine, std::vector<Cell> theirs,
                   bool is_first, Slices how) {
  if (is_first) {
    co_await mine[0].write(7);
    co_await finished.store(1, release);
  }
  co_await finished.wait_for(1, acquire);
  const int sum = co_await (is_first ? mine : theirs)[0].read();
  world.require(sum == 7, "the sum of the call before was overwritten");
  for (std::size_t t = 0; t < 3; ++t) {
    if (t < 2) {  // halves 1 and 0
      if (t == 1 && how.waits_for_call) co_await opened[0].wait_for(1, how.orders.look);
      co_await mine[1 - t].write(static_cast<int>(t));
      if (co_await arrived[t].fetch_add(1, how.orders.arrive) == 1) co_await opened[t].store(1, how.open);
    }
    if (t == 0) continue;
    co_await opened[t - 1].wait_for(1, how.orders.look);
    const int data = co_await theirs[2 - t].read();
    world.require(data == static_cast<int>(t) - 1, "another piece was read");
    co_await theirs[2 - t].write(data + 10);
    co_await reduced[t - 1].fetch_add(1, how.orders.finish);
    co_await reduced[t - 1].wait_for(2, how.orders.look);
    const int taken = co_await mine[2 - t].read();
    world.require(taken == static_cast<int>(t) + 9, "no sum was taken");
  }
}

std::string wrong_with_slices(Slices how) {
  return explore([=](World& world) {
           std::vector<Cell> arrived, opened, reduced, first, second;
           for (const char* which : {"0", "1"}) {
             arrived.push_back(world.cell(std::string("arrived at piece ") + which));
             opened.push_back(world.cell(std::string("opened piece ") + which));
             reduced.push_back(world.cell(std::string("reduced piece ") + which));
             first.push_back(world.cell(std::string("first rank's half ") + which));
             second.push_back(world.cell(std::string("second rank's half ") + which));
           }
           const Cell finished = world.cell("finished call before");
           world.run("first",
                     pass_slices(world, arrived, opened, reduced, finished, first, second, true, how));
           world.run("second",
                     pass_slices(world, arrived, opened, reduced, finished, second, first, false, how));
         })
      .wrong;
}

TEST(ArrivalsModel, SlicesBeginWhereTheCallBeforeEnds) {
  EXPECT_EQ(wrong_with_slices({}), "");
  EXPECT_NE(wrong_with_slices({.waits_for_call = false}), "");
  EXPECT_NE(wrong_with_slices({.orders = {.arrive = release}}), "");
  EXPECT_NE(wrong_with_slices({.orders = {.finish = relaxed}}), "");
  EXPECT_NE(wrong_with_slices({.orders = {.look = relaxed}}), "");
  EXPECT_NE(wrong_with_slices({.open = relaxed}), "");
}

struct Naps {
  Order sleeper_fence = seq_cst;
  Order waker_fence = seq_cst;
  Order look_at_bell = acquire;
  bool looks_at_bell_first = true;
};

/// As nap(): the system compares the bell and sleeps in one step, so a ring after the look ends the nap.
Thread nap_until(Cell number, Cell napping, Cell bell, Naps how) {
  co_await napping.fetch_add(1, relaxed);
  co_await fence(how.sleeper_fence);
  int rung = how.looks_at_bell_first ? co_await bell.load(how.look_at_bell) : 0;
  const int seen = co_await number.load(relaxed);
  if (!how.looks_at_bell_first) rung = co_await bell.load(how.look_at_bell);
  if (seen == 0) co_await bell.wait_for_at_least(rung + 1, acquire);
}

Thread finish_and_wake(Cell finished, Cell napping, Cell bell, Naps how) {
  co_await finished.store(1, release);
  co_await fence(how.waker_fence);
  const int sleepers = co_await napping.load(relaxed);
  if (sleepers > 0) co_await bell.fetch_add(1, release);
}

Thread interrupt(Cell interrupted, Cell bell) {
  co_await interrupted.store(1, relaxed);
  co_await bell.fetch_add(1, release);
}

std::string wrong_with_naps(Naps how, bool is_interrupted = false) {
  return explore([=](World& world) {
           const Cell number = world.cell(is_interrupted ? "interrupted" : "finished");
           const Cell napping = world.cell("napping");
           const Cell bell = world.cell("bell");
           world.run("sleeper", nap_until(number, napping, bell, how));
           if (is_interrupted) {
             world.run("other thread", interrupt(number, bell));
           } else {
             world.run("waker", finish_and_wake(number, napping, bell, how));
           }
         })
      .wrong;
}
std::string wrong_with_interrupt(Naps how) {
  return wrong_with_naps(how, true);
}

TEST(ArrivalsModel, NoWakeUpOfANapIsLost) {
  EXPECT_EQ(wrong_with_naps({}), "");
  EXPECT_NE(wrong_with_naps({.sleeper_fence = acq_rel}), "");
  EXPECT_NE(wrong_with_naps({.waker_fence = acq_rel}), "");
  EXPECT_NE(wrong_with_naps({.looks_at_bell_first = false}), "");
}

TEST(ArrivalsModel, NoInterruptOfANapIsLost) {
  EXPECT_EQ(wrong_with_interrupt({}), "");
  EXPECT_EQ(wrong_with_interrupt({.sleeper_fence = relaxed}), "") << "the bell alone orders it";
  EXPECT_NE(wrong_with_interrupt({.look_at_bell = relaxed}), "");
  EXPECT_NE(wrong_with_interrupt({.looks_at_bell_first = false}), "");
}

struct Sleeps {
  Order sleeper_fence = seq_cst;
  Order waker_fence = seq_cst;
  bool counts_first = true;
};

/// A rank that sleeps until a peer rings first counts itself where it waits (Team::fall_asleep()).
Thread sleep_until_finished(Cell finished, Cell sleeping, Cell asleep, Cell bell, Sleeps how) {
  if (how.counts_first) co_await sleeping.fetch_add(1, relaxed);
  co_await asleep.store(1, relaxed);
  co_await fence(how.sleeper_fence);
  const int seen = co_await finished.load(relaxed);
  if (!how.counts_first) co_await sleeping.fetch_add(1, relaxed);
  if (seen == 0) co_await bell.wait_for_at_least(1, acquire);
}

Thread finish_and_ring(Cell finished, Cell sleeping, Cell asleep, Cell bell, Sleeps how) {
  co_await finished.store(1, release);
  co_await fence(how.waker_fence);
  const int sleepers = co_await sleeping.load(relaxed);
  if (sleepers == 0) co_return;
  const int sleeps = co_await asleep.load(relaxed);
  if (sleeps == 1) co_await bell.fetch_add(1, release);
}

std::string wrong_with_sleeps(Sleeps how) {
  return explore([=](World& world) {
           const Cell finished = world.cell("finished");
           const Cell sleeping = world.cell("sleeping");
           const Cell asleep = world.cell("asleep");
           const Cell bell = world.cell("bell");
           world.run("sleeper", sleep_until_finished(finished, sleeping, asleep, bell, how));
           world.run("waker", finish_and_ring(finished, sleeping, asleep, bell, how));
         })
      .wrong;
}

TEST(ArrivalsModel, ARankThatCountsItselfBeforeItSleepsIsRung) {
  EXPECT_EQ(wrong_with_sleeps({}), "");
  EXPECT_NE(wrong_with_sleeps({.sleeper_fence = acq_rel}), "");
  EXPECT_NE(wrong_with_sleeps({.waker_fence = acq_rel}), "");
  EXPECT_NE(wrong_with_sleeps({.counts_first = false}), "");
}

}  // namespace
}  // namespace kolo::test::memory
