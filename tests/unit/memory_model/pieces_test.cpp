// How ranks reuse shared memory in a large call: pieces over the segments, in two halves (in_pieces() in
// engine/shared_memory/pieces.hpp, CommSlot::staged and CommSlot::reduced), and a call cut into shares
// (SliceCounters in the same folder's slice_counters.hpp).
#include <gtest/gtest.h>

#include <vector>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

/// Calls in a row, each in so many pieces.
struct Pieces {
  Order staged = release;
  Order reduced = release;
  Order done = release;
  bool waits_for_readers = true;
  bool waits_for_calls = true;  ///< before the second piece, for the ends of the calls before
  bool waits_at_end = true;     ///< for the readers of the last piece but one
  std::vector<int> calls = {3};
};

struct PieceLane {
  Cell staged;
  Cell reduced;
  Cell done;
  std::vector<Cell> halves;
};

PieceLane make_lane(World& world, const std::string& rank) {
  return {world.cell(rank + "'s staged"),
          world.cell(rank + "'s reduced"),
          world.cell(rank + "'s done"),
          {world.cell(rank + "'s half 0"), world.cell(rank + "'s half 1")}};
}

Thread exchange_pieces(World& world, PieceLane mine, PieceLane theirs, Pieces how) {
  int before = 0;
  int number = 0;
  for (const int pieces : how.calls) {
    ++number;
    const auto half = [&](int t) { return static_cast<std::size_t>((before + t) % 2); };
    co_await mine.halves[half(0)].write(10 + before);
    co_await mine.staged.store(before + 1, how.staged);
    for (int t = 0; t < pieces; ++t) {
      if (t + 1 < pieces) {
        if (t > 0 && how.waits_for_readers) co_await theirs.reduced.wait_for_at_least(before + t, acquire);
        if (t == 0 && number > 1 && how.waits_for_calls)
          co_await theirs.done.wait_for_at_least(number - 1, acquire);
        co_await mine.halves[half(t + 1)].write(10 + before + t + 1);
        co_await mine.staged.store(before + t + 2, how.staged);
      }
      co_await theirs.staged.wait_for_at_least(before + t + 1, acquire);
      const int read = co_await theirs.halves[half(t)].read();
      world.require(read == 10 + before + t, "a wrong piece was read");
      co_await theirs.halves[half(t)].write(read);  // kernels::own_lines()
      co_await mine.reduced.store(before + t + 1, how.reduced);
    }
    if (pieces > 1 && how.waits_at_end)
      co_await theirs.reduced.wait_for_at_least(before + pieces - 1, acquire);
    co_await mine.done.store(number, how.done);
    before += pieces;
  }
}

std::string wrong_with_pieces(Pieces how) {
  return explore([=](World& world) {
           const PieceLane one = make_lane(world, "one");
           const PieceLane other = make_lane(world, "other");
           world.run("one", exchange_pieces(world, one, other, how));
           world.run("other", exchange_pieces(world, other, one, how));
         })
      .wrong;
}

TEST(PiecesModel, NoHalfIsWrittenWhileAnotherRankUsesIt) {
  EXPECT_EQ(wrong_with_pieces({}), "");
  EXPECT_NE(wrong_with_pieces({.staged = relaxed}), "");
  EXPECT_NE(wrong_with_pieces({.reduced = relaxed}), "");
  EXPECT_NE(wrong_with_pieces({.waits_for_readers = false}), "");
}

TEST(PiecesModel, ACallBeginsInAHalfThatAllRanksHaveRead) {
  EXPECT_EQ(wrong_with_pieces({.calls = {1, 1, 1}}), "");
  EXPECT_EQ(wrong_with_pieces({.calls = {2, 1}}), "");
  EXPECT_EQ(wrong_with_pieces({.calls = {1, 2}}), "");
  EXPECT_NE(wrong_with_pieces({.waits_at_end = false, .calls = {2, 1}}), "");
  EXPECT_NE(wrong_with_pieces({.waits_for_calls = false, .calls = {1, 2}}), "");
  EXPECT_NE(wrong_with_pieces({.done = relaxed, .calls = {1, 2}}), "");
}

/// Three ranks, two shares. The rank without a share reads the sums of the other two ranks.
Thread do_shares(World& world, Cell taken, Cell finished, std::vector<Cell> sums, Order finish) {
  const int share = co_await taken.fetch_add(1, acq_rel);
  if (share < 2) {
    co_await sums[static_cast<std::size_t>(share)].write(1);
    co_await finished.fetch_add(1, finish);
  }
  co_await finished.wait_for(2, acquire);
  for (const Cell& sum : sums) {
    const int value = co_await sum.read();
    world.require(value == 1, "a share is not done");
  }
}

std::string wrong_with_shares(Order finish) {
  return explore([=](World& world) {
           const Cell taken = world.cell("taken");
           const Cell finished = world.cell("finished");
           const std::vector<Cell> sums = {world.cell("sum 0"), world.cell("sum 1")};
           for (const char* rank : {"rank 0", "rank 1", "rank 2"})
             world.run(rank, do_shares(world, taken, finished, sums, finish));
         })
      .wrong;
}

TEST(SharesModel, ARankThatSeesTheLastShareSeesThemAll) {
  EXPECT_EQ(wrong_with_shares(acq_rel), "");
  EXPECT_NE(wrong_with_shares(relaxed), "");
}

}  // namespace
}  // namespace kolo::test::memory
