// How memory is revoked from peers that write or read it: Call::begin_writing(), Call::is_given_up()
// (engine/shared_memory/call.cpp) and Team::abandon() (engine/shared_memory/team.cpp), over
// Segment::writing and Segment::closed (engine/shared_memory/segment.hpp); InprocEndpoint::map() and revoke()
// (transport/inproc/endpoint.cpp), and RingReader::writer_revoked().
#include <gtest/gtest.h>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

struct Abandoning {
  Order begin = seq_cst;  ///< writing = 1
  Order look = seq_cst;   ///< load of closed
  Order end = release;    ///< writing = 0
  Order close = seq_cst;  ///< closed = 1
  Order close_fence = seq_cst;
  Order look_fence = acquire;
};

Thread write_pieces(Cell writing, Cell closed, Cell memory, Abandoning how) {
  for (const int piece : {1, 2, 3}) {
    const int is_writing = co_await writing.load(relaxed);
    if (is_writing == 0) co_await writing.store(1, how.begin);
    co_await fence(how.look_fence);
    const int is_closed = co_await closed.load(how.look);
    if (is_closed == 0) co_await memory.write(piece);
    if (piece != 1) co_await writing.store(0, how.end);  // the first two pieces share one check of `closed`
    if (is_closed != 0) break;
  }
}

Thread abandon(Cell writing, Cell closed, Cell memory, Abandoning how) {
  co_await closed.store(1, how.close);
  co_await fence(how.close_fence);
  co_await writing.wait_for(0, seq_cst);
  co_await memory.write(9);  // the memory belongs to the caller from here on
}

std::string wrong_for_writers(Abandoning how) {
  return explore([=](World& world) {
           const Cell writing = world.cell("writing");
           const Cell closed = world.cell("closed");
           const Cell memory = world.cell("the caller's memory");
           world.run("writer", write_pieces(writing, closed, memory, how));
           world.run("owner", abandon(writing, closed, memory, how));
         })
      .wrong;
}

TEST(AbandoningModel, NoPeerWritesAfterTheEnd) {
  EXPECT_EQ(wrong_for_writers({}), "");
  EXPECT_NE(wrong_for_writers({.begin = release}), "");
  EXPECT_NE(wrong_for_writers({.look = acquire}), "");
  EXPECT_NE(wrong_for_writers({.end = relaxed}), "");
  EXPECT_NE(wrong_for_writers({.close = release, .close_fence = acq_rel}), "");
}

/// A reader that was stopped continues much later. The owner does not wait for it, so it must discard what it
/// reads.
Thread read_then_look(World& world, Cell closed, Cell memory, Abandoning how) {
  const int read = co_await memory.load(relaxed);
  co_await fence(how.look_fence);
  const int is_closed = co_await closed.load(how.look);
  world.require(is_closed != 0 || read == 0, "what was read is not what was shown");
}

Thread close_then_write(Cell closed, Cell memory, Abandoning how) {
  co_await closed.store(1, how.close);
  co_await fence(how.close_fence);
  co_await memory.store(9, relaxed);
}

std::string wrong_for_readers(Abandoning how) {
  return explore([=](World& world) {
           const Cell closed = world.cell("closed");
           const Cell memory = world.cell("the caller's memory");
           world.run("reader", read_then_look(world, closed, memory, how));
           world.run("owner", close_then_write(closed, memory, how));
         })
      .wrong;
}

TEST(AbandoningModel, NoReaderBelievesWhatItReadsAfterTheEnd) {
  EXPECT_EQ(wrong_for_readers({}), "");
  EXPECT_NE(wrong_for_readers({.look_fence = release}), "");
  EXPECT_NE(wrong_for_readers({.close_fence = acquire}), "");
}

/// A pull within a process: `revoked` is read by a read-modify-write.
struct Pulling {
  bool looks_with_update = true;
  Order end = seq_cst;
};

Thread pull(Cell pulling, Cell revoked, Cell memory, Pulling how) {
  co_await pulling.store(1, seq_cst);
  const int is_revoked =
      co_await (how.looks_with_update ? revoked.fetch_or(0, seq_cst) : revoked.load(acquire));
  if (is_revoked == 0) co_await memory.read();
  co_await pulling.store(0, how.end);
}

Thread revoke(Cell pulling, Cell revoked, Cell memory) {
  co_await revoked.exchange(1, seq_cst);
  co_await pulling.wait_for(0, seq_cst);
  co_await memory.write(9);
}

std::string wrong_for_pulls(Pulling how) {
  return explore([=](World& world) {
           const Cell pulling = world.cell("pulling");
           const Cell revoked = world.cell("revoked");
           const Cell memory = world.cell("the caller's memory");
           world.run("puller", pull(pulling, revoked, memory, how));
           world.run("owner", revoke(pulling, revoked, memory));
         })
      .wrong;
}

TEST(AbandoningModel, NoPullReadsAfterRevoke) {
  EXPECT_EQ(wrong_for_pulls({}), "");
  EXPECT_NE(wrong_for_pulls({.looks_with_update = false}), "");
  EXPECT_NE(wrong_for_pulls({.end = relaxed}), "");
}

/// A pull between processes: the owner does not wait; the reader checks `revoked` after the read.
std::string wrong_for_late_looks(bool looks_with_update) {
  return explore([=](World& world) {
           const Cell revoked = world.cell("revoked");
           const Cell memory = world.cell("the caller's memory");
           const auto reader = [](World& its, Cell flag, Cell exposed, bool updates) -> Thread {
             const int read = co_await exposed.load(relaxed);
             const int is_revoked = co_await (updates ? flag.fetch_or(0, seq_cst) : flag.load(seq_cst));
             its.require(is_revoked != 0 || read == 0, "what was read is not what was exposed");
           };
           const auto owner = [](Cell flag, Cell exposed) -> Thread {
             co_await flag.exchange(1, seq_cst);
             co_await exposed.store(9, relaxed);
           };
           world.run("reader", reader(world, revoked, memory, looks_with_update));
           world.run("owner", owner(revoked, memory));
         })
      .wrong;
}

TEST(AbandoningModel, NoPullBetweenProcessesIsBelievedAfterRevoke) {
  EXPECT_EQ(wrong_for_late_looks(true), "");
  EXPECT_NE(wrong_for_late_looks(false), "");
}

}  // namespace
}  // namespace kolo::test::memory
