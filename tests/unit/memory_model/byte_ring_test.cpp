// The byte ring buffer: RingWriter and RingReader (transport/byte_ring.hpp), each with a doorbell. All bytes
// arrive, no cell is written while it is read, and neither side sleeps for ever.
#include <gtest/gtest.h>

#include <vector>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

/// The reader wakes the writer only when the ring is empty, so later than in the code, which wakes it when a
/// quarter is free.
struct RingOrders {
  Order publish = seq_cst;       ///< store of head or tail
  Order look_at_flag = seq_cst;  ///< load of the peer's flag, after the store
  Order flag = seq_cst;          ///< store of reader_sleeps or writer_waits
  Order look_again = seq_cst;    ///< load of head or tail, after the store of the flag
  Order free = seq_cst;          ///< store of tail, which frees room
  int bytes = 2;
  int capacity = 1;
  bool reader_spins = false;
};

struct Ring {
  Cell head;
  Cell tail;
  Cell reader_sleeps;
  Cell writer_waits;
  Cell reader_doorbell;
  Cell writer_doorbell;
  std::vector<Cell> data;

  const Cell& at(int position) const { return data[static_cast<std::size_t>(position) % data.size()]; }
};

Ring make_ring(World& world, int capacity) {
  Ring ring{world.cell("head"),
            world.cell("tail"),
            world.cell("reader_sleeps"),
            world.cell("writer_waits"),
            world.cell("reader's doorbell"),
            world.cell("writer's doorbell"),
            {}};
  for (int i = 0; i < capacity; ++i) ring.data.push_back(world.cell("byte " + std::to_string(i)));
  return ring;
}

Thread write_bytes(Ring ring, RingOrders how) {
  int tail = 0;
  int notices = 0;
  for (int head = 0; head < how.bytes;) {
    if (head - tail == how.capacity) tail = co_await ring.tail.load(acquire);
    if (head - tail == how.capacity) {
      co_await ring.writer_waits.store(1, how.flag);
      tail = co_await ring.tail.load(how.look_again);
      if (head - tail == how.capacity) {
        notices = co_await ring.writer_doorbell.wait_for_at_least(notices + 1, acquire);
        tail = co_await ring.tail.load(acquire);
      }
      co_await ring.writer_waits.store(0, relaxed);
      continue;
    }
    co_await ring.at(head).write(10 + head);
    co_await ring.head.store(++head, how.publish);
    const int is_asleep = co_await ring.reader_sleeps.load(how.look_at_flag);
    if (is_asleep == 0) continue;
    const int still = co_await ring.reader_sleeps.exchange(0, acq_rel);
    if (still != 0) co_await ring.reader_doorbell.fetch_add(1, release);
  }
}

Thread read_bytes(World& world, Ring ring, RingOrders how) {
  int head = 0;
  int notices = 0;
  for (int tail = 0; tail < how.bytes;) {
    if (head == tail) head = co_await ring.head.load(acquire);
    if (head == tail && how.reader_spins) head = co_await ring.head.wait_for_at_least(tail + 1, acquire);
    if (head == tail) {
      co_await ring.reader_sleeps.store(1, how.flag);
      head = co_await ring.head.load(how.look_again);
      if (head == tail) {
        notices = co_await ring.reader_doorbell.wait_for_at_least(notices + 1, acquire);
        head = co_await ring.head.load(acquire);
      }
      co_await ring.reader_sleeps.store(0, relaxed);
      continue;
    }
    const int byte = co_await ring.at(tail).read();
    world.require(byte == 10 + tail, "a wrong byte was read");
    co_await ring.tail.store(++tail, how.free);
    const int waits = co_await ring.writer_waits.load(how.look_at_flag);
    if (waits == 0 || head > tail) continue;
    const int still = co_await ring.writer_waits.exchange(0, acq_rel);
    if (still != 0) co_await ring.writer_doorbell.fetch_add(1, release);
  }
}

std::string wrong_with_ring(RingOrders how) {
  return explore([=](World& world) {
           const Ring ring = make_ring(world, how.capacity);
           world.run("writer", write_bytes(ring, how));
           world.run("reader", read_bytes(world, ring, how));
         })
      .wrong;
}

TEST(ByteRingModel, AllBytesArriveAndNoSideSleepsForEver) {
  EXPECT_EQ(wrong_with_ring({}), "");
}

TEST(ByteRingModel, AWriterMayBeWokenLateWhileBytesAreLeft) {
  EXPECT_EQ(wrong_with_ring({.bytes = 3, .capacity = 2, .reader_spins = true}), "");
}

TEST(ByteRingModel, NeedsEachOfItsOrders) {
  EXPECT_NE(wrong_with_ring({.publish = release}), "");
  EXPECT_NE(wrong_with_ring({.look_at_flag = acquire}), "");
  EXPECT_NE(wrong_with_ring({.flag = release}), "");
  EXPECT_NE(wrong_with_ring({.look_again = acquire}), "");
  EXPECT_NE(wrong_with_ring({.free = release}), "");
  EXPECT_NE(wrong_with_ring({.free = relaxed}), "");
}

}  // namespace
}  // namespace kolo::test::memory
