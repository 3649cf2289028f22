// Tests of the checker: litmus tests of the literature, with the outcomes that C++ allows and forbids.
#include <gtest/gtest.h>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;
using Outcomes = std::set<std::vector<int>>;

/// The first `count` numbers of each outcome.
Outcomes outcomes_of(const std::function<void(World&)>& program, std::size_t count) {
  const Findings findings = explore(program);
  EXPECT_EQ(findings.wrong, "");
  Outcomes outcomes;
  for (std::vector<int> seen : findings.outcomes) {
    seen.resize(count);
    outcomes.insert(std::move(seen));
  }
  return outcomes;
}

Thread store_two(Cell first, Cell second, Order order, bool with_fence) {
  co_await first.store(1, relaxed);
  if (with_fence) co_await fence(release);
  co_await second.store(1, order);
}

Thread load_two(World& world, Cell first, Cell second, Order order, std::size_t at, bool with_fence) {
  world.seen[at] = co_await first.load(order);
  if (with_fence) co_await fence(acquire);
  world.seen[at + 1] = co_await second.load(relaxed);
}

Outcomes message_passing(Order store, Order load, bool with_fences) {
  return outcomes_of(
      [=](World& world) {
        const Cell data = world.cell("data");
        const Cell flag = world.cell("flag");
        world.run("sender", store_two(data, flag, store, with_fences));
        world.run("receiver", load_two(world, flag, data, load, 0, with_fences));
      },
      2);
}

TEST(Litmus, MessagePassing) {
  const Outcomes ordered = {{0, 0}, {0, 1}, {1, 1}};
  const Outcomes stale = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(message_passing(release, acquire, false), ordered);
  EXPECT_EQ(message_passing(relaxed, relaxed, true), ordered);
  EXPECT_EQ(message_passing(seq_cst, seq_cst, false), ordered);
  EXPECT_EQ(message_passing(relaxed, acquire, false), stale);
  EXPECT_EQ(message_passing(release, relaxed, false), stale);
  EXPECT_EQ(message_passing(relaxed, relaxed, false), stale);
}

Thread store_then_load(World& world, Cell mine, Cell other, Order store, Order load, bool with_fence,
                       std::size_t at) {
  co_await mine.store(1, store);
  if (with_fence) co_await fence(seq_cst);
  world.seen[at] = co_await other.load(load);
}

Outcomes store_buffering(Order store, Order load, bool first_fence, bool second_fence) {
  return outcomes_of(
      [=](World& world) {
        const Cell x = world.cell("x");
        const Cell y = world.cell("y");
        world.run("one", store_then_load(world, x, y, store, load, first_fence, 0));
        world.run("other", store_then_load(world, y, x, store, load, second_fence, 1));
      },
      2);
}

TEST(Litmus, StoreBuffering) {
  const Outcomes one_sees = {{0, 1}, {1, 0}, {1, 1}};
  const Outcomes none_may_see = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(store_buffering(release, acquire, false, false), none_may_see);
  EXPECT_EQ(store_buffering(relaxed, relaxed, true, true), one_sees);
  EXPECT_EQ(store_buffering(seq_cst, seq_cst, false, false), one_sees);
  EXPECT_EQ(store_buffering(release, acquire, true, false), none_may_see);
  EXPECT_EQ(store_buffering(seq_cst, acquire, false, false), none_may_see);
  EXPECT_EQ(store_buffering(release, seq_cst, false, false), none_may_see);
}

Thread store_one(Cell cell, int value, Order order) {
  co_await cell.store(value, order);
}

Thread load_fence_load(World& world, Cell first, Cell second, Order order, bool with_fence, std::size_t at) {
  world.seen[at] = co_await first.load(order);
  if (with_fence) co_await fence(seq_cst);
  world.seen[at + 1] = co_await second.load(order);
}

/// Whether two readers can see two independent writes in different orders.
bool readers_differ(Order store, Order load, bool with_fences) {
  return outcomes_of(
             [=](World& world) {
               const Cell x = world.cell("x");
               const Cell y = world.cell("y");
               world.run("writer of x", store_one(x, 1, store));
               world.run("writer of y", store_one(y, 1, store));
               world.run("one reader", load_fence_load(world, x, y, load, with_fences, 0));
               world.run("other reader", load_fence_load(world, y, x, load, with_fences, 2));
             },
             4)
      .contains({1, 0, 1, 0});
}

TEST(Litmus, IndependentReadsOfIndependentWrites) {
  EXPECT_TRUE(readers_differ(release, acquire, false));
  EXPECT_FALSE(readers_differ(relaxed, relaxed, true));
  EXPECT_FALSE(readers_differ(seq_cst, seq_cst, false));
}

TEST(Litmus, NoThreadSeesALocationGoBackwards) {
  const Outcomes seen = outcomes_of(
      [](World& world) {
        const Cell x = world.cell("x");
        world.run("writer", store_one(x, 1, relaxed));
        world.run("reader", load_fence_load(world, x, x, relaxed, false, 0));
      },
      2);
  EXPECT_EQ(seen, (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
}

TEST(Litmus, WritesOfTwoThreadsMayBeOrderedDifferentlyInTwoLocations) {
  const Outcomes last = outcomes_of(
      [](World& world) {
        const Cell x = world.cell("x");
        const Cell y = world.cell("y");
        const Cell over = world.cell("over");
        const auto writer = [](Cell first, Cell second, Cell ended) -> Thread {
          co_await first.store(1, relaxed);
          co_await second.store(2, relaxed);
          co_await ended.fetch_add(1, acq_rel);
        };
        const auto reader = [](World& its, Cell one, Cell other, Cell ended) -> Thread {
          co_await ended.wait_for(2, acquire);
          its.seen[0] = co_await one.load(relaxed);
          its.seen[1] = co_await other.load(relaxed);
        };
        world.run("one", writer(x, y, over));
        world.run("other", writer(y, x, over));
        world.run("reader", reader(world, x, y, over));
      },
      2);
  EXPECT_TRUE(last.contains({1, 1}));
  EXPECT_TRUE(last.contains({2, 2}));
}

/// A counter between sender and receiver, which a third thread increments or overwrites.
Outcomes through_a_third(bool updates) {
  return outcomes_of(
      [=](World& world) {
        const Cell data = world.cell("data");
        const Cell flag = world.cell("flag");
        const auto third = [](Cell counter, bool counts) -> Thread {
          co_await counter.wait_for(1, relaxed);
          if (counts) {
            co_await counter.fetch_add(1, relaxed);
          } else {
            co_await counter.store(2, relaxed);
          }
        };
        const auto receiver = [](World& its, Cell counter, Cell content) -> Thread {
          co_await counter.wait_for(2, acquire);
          its.seen[0] = co_await content.load(relaxed);
        };
        world.run("sender", store_two(data, flag, release, false));
        world.run("third", third(flag, updates));
        world.run("receiver", receiver(world, flag, data));
      },
      1);
}

TEST(Litmus, AReleaseSequenceGoesOnThroughUpdatesAlone) {
  EXPECT_EQ(through_a_third(true), (Outcomes{{1}}));
  EXPECT_EQ(through_a_third(false), (Outcomes{{0}, {1}}));
}

TEST(Litmus, NoUpdateIsLost) {
  const Outcomes both = outcomes_of(
      [](World& world) {
        const Cell x = world.cell("x");
        const auto add = [](World& its, Cell counter, std::size_t at) -> Thread {
          its.seen[at] = co_await counter.fetch_add(1, relaxed);
        };
        world.run("one", add(world, x, 0));
        world.run("other", add(world, x, 1));
      },
      2);
  EXPECT_EQ(both, (Outcomes{{0, 1}, {1, 0}}));
}

/// A relaxed load, then a load of the flag, while the owner sets the flag and overwrites the data.
/// Sequentially consistent loads do not order an earlier relaxed load.
Outcomes read_then_validate(bool by_update, bool with_fence) {
  return outcomes_of(
      [=](World& world) {
        const Cell data = world.cell("data");
        const Cell flag = world.cell("flag");
        const auto owner = [](Cell content, Cell raised) -> Thread {
          co_await raised.exchange(1, seq_cst);
          co_await content.store(1, relaxed);
        };
        const auto reader = [](World& its, Cell content, Cell raised, bool updates, bool fences) -> Thread {
          its.seen[0] = co_await content.load(relaxed);
          if (fences) co_await fence(acquire);
          its.seen[1] = co_await (updates ? raised.fetch_or(0, seq_cst) : raised.load(seq_cst));
        };
        world.run("owner", owner(data, flag));
        world.run("reader", reader(world, data, flag, by_update, with_fence));
      },
      2);
}

TEST(Litmus, OnlyAnUpdateValidatesWhatWasReadBeforeAnUpdate) {
  EXPECT_FALSE(read_then_validate(true, false).contains({1, 0}));
  EXPECT_TRUE(read_then_validate(false, false).contains({1, 0}));
  EXPECT_TRUE(read_then_validate(false, true).contains({1, 0}));
}

std::string wrong_with_plain_data(Order store, Order load, bool waits) {
  return explore([=](World& world) {
           const Cell data = world.cell("data");
           const Cell flag = world.cell("flag");
           const auto sender = [](Cell content, Cell raised, Order order) -> Thread {
             co_await content.write(1);
             co_await raised.store(1, order);
           };
           const auto receiver = [](World& its, Cell content, Cell raised, Order order, bool once) -> Thread {
             if (once) co_await raised.wait_for(1, order);
             const int read = co_await content.read();
             its.require(read == 1, "the receiver has read nothing");
           };
           world.run("sender", sender(data, flag, store));
           world.run("receiver", receiver(world, data, flag, load, waits));
         })
      .wrong;
}

TEST(Litmus, RacesOfPlainAccessesAreFound) {
  EXPECT_EQ(wrong_with_plain_data(release, acquire, true), "");
  for (const auto& wrong :
       {wrong_with_plain_data(relaxed, acquire, true), wrong_with_plain_data(release, relaxed, true)}) {
    EXPECT_TRUE(wrong.starts_with("there is a data race on data:\n")) << wrong;
  }
  EXPECT_NE(wrong_with_plain_data(release, acquire, false), "");
}

TEST(Litmus, WaitsWithoutEndAreFound) {
  const Findings findings = explore([](World& world) {
    const Cell x = world.cell("x");
    const auto waiter = [](Cell cell) -> Thread { co_await cell.wait_for(2, acquire); };
    world.run("writer", store_one(x, 1, release));
    world.run("waiter", waiter(x));
  });
  EXPECT_EQ(findings.wrong, "waiter wait without end:\n  writer: writes x = 1 (release)\n");
}

}  // namespace
}  // namespace kolo::test::memory
