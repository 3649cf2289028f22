// How ranks fall asleep and are woken: Peers::announce_sleep() (engine/peers.cpp) and Team::tell()
// (engine/shared_memory/waiting.cpp), over Segment::asleep. Every wait for the doorbell ends.
#include <gtest/gtest.h>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

struct Sleeping {
  Order sleeper_fence = seq_cst;
  Order publisher_fence = seq_cst;
  bool numbers_sleeps = true;  ///< each sleep has a number of its own
  bool tells_when_it_sleeps = true;
};

/// The value that one rank publishes to the other, and the doorbell that wakes it: a socket, in which notices
/// accumulate.
struct Rank {
  Cell number;
  Cell asleep;
  Cell doorbell;
};

Rank make_rank(World& world, const std::string& name) {
  return {world.cell(name + "'s number"), world.cell(name + "'s asleep"), world.cell(name + "'s doorbell")};
}

Thread publish(Rank sleeper, Rank publisher, int calls, Sleeping how) {
  int rung = 0;
  for (int call = 1; call <= calls; ++call) {
    co_await publisher.number.store(call, release);
    co_await fence(how.publisher_fence);
    const int asleep = co_await sleeper.asleep.load(relaxed);
    if (asleep % 2 == 0 || asleep == rung) continue;
    rung = asleep;
    co_await sleeper.doorbell.fetch_add(1, release);
  }
}

Thread sleep_until_published(Rank sleeper, Rank publisher, int calls, Sleeping how) {
  int sleeps = 0;
  int notices = 0;
  for (int call = 1; call <= calls;) {
    co_await sleeper.asleep.store(how.numbers_sleeps ? ++sleeps : 1, relaxed);
    co_await fence(how.sleeper_fence);
    int seen = co_await publisher.number.load(acquire);
    if (seen < call) {
      notices = co_await sleeper.doorbell.wait_for_at_least(notices + 1, acquire);
      seen = co_await publisher.number.load(acquire);
    }
    co_await sleeper.asleep.store(how.numbers_sleeps ? ++sleeps : 0, relaxed);
    if (seen >= call) ++call;
  }
}

std::string wrong_when_asleep(Sleeping how) {
  return explore([=](World& world) {
           const Rank sleeper = make_rank(world, "sleeper");
           const Rank publisher = make_rank(world, "publisher");
           world.run("sleeper", sleep_until_published(sleeper, publisher, 2, how));
           world.run("publisher", publish(sleeper, publisher, 2, how));
         })
      .wrong;
}

TEST(SleepingModel, NoWakeUpIsLost) {
  EXPECT_EQ(wrong_when_asleep({}), "");
}

TEST(SleepingModel, BothFencesAreNeededAndTheNumberOfTheSleep) {
  EXPECT_NE(wrong_when_asleep({.sleeper_fence = acq_rel}), "");
  EXPECT_NE(wrong_when_asleep({.publisher_fence = acq_rel}), "");
  EXPECT_NE(wrong_when_asleep({.numbers_sleeps = false}), "");
}

/// Two ranks that wait for each other. Neither wakes the other before it sleeps.
Thread exchange(Rank mine, Rank other, Sleeping how) {
  int sleeps = 0;
  int notices = 0;
  bool changed = how.tells_when_it_sleeps;
  co_await mine.number.store(1, release);
  for (int seen = 0; seen == 0;) {
    co_await mine.asleep.store(++sleeps, relaxed);
    co_await fence(how.sleeper_fence);
    seen = co_await other.number.load(acquire);
    if (changed) {
      changed = false;
      co_await fence(how.publisher_fence);
      const int asleep = co_await other.asleep.load(relaxed);
      if (asleep % 2 != 0) co_await other.doorbell.fetch_add(1, release);
    }
    if (seen == 0) {
      notices = co_await mine.doorbell.wait_for_at_least(notices + 1, acquire);
      seen = co_await other.number.load(acquire);
    }
    co_await mine.asleep.store(++sleeps, relaxed);
  }
}

std::string wrong_between_two(Sleeping how) {
  return explore([=](World& world) {
           const Rank one = make_rank(world, "one");
           const Rank other = make_rank(world, "other");
           world.run("one", exchange(one, other, how));
           world.run("other", exchange(other, one, how));
         })
      .wrong;
}

TEST(SleepingModel, WhatWasNotToldIsToldBeforeSleep) {
  EXPECT_EQ(wrong_between_two({}), "");
  EXPECT_NE(wrong_between_two({.tells_when_it_sleeps = false}), "");
}

}  // namespace
}  // namespace kolo::test::memory
