// What a rank does between two polls: decisions alone.
#include "engine/backoff.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;
using Step = Backoff::Step;

constexpr Clock::time_point kBegin{1h};
const Backoff kOwnCore({1ms, 1, true}), kSharedCore({1ms, 4, true}), kSockets({1ms, 1, false});
const auto kSleep = kOwnCore.longest_spin(0.5);  // what a sleep costs

/// What follows a poll so long after the wait has begun.
Step after(const Backoff& backoff, Clock::duration time, const Backoff::Seen& seen, Backoff::Wait wait = {}) {
  wait.begin = kBegin;
  return backoff.next(wait, kBegin + time, seen);
}

TEST(Backoff, SpinsForLessTheMoreOfItsCoreIsLostAndNeverForLessThanASleepTakes) {
  EXPECT_EQ(kOwnCore.longest_spin(0), 1ms);
  EXPECT_EQ(kOwnCore.longest_spin(0.04), 1ms) << "100 us of 3 ms";
  EXPECT_EQ(kOwnCore.longest_spin(0.2), 4 * kSleep) << "1 ms of 5";
  EXPECT_LE(kSleep, 200us) << "another program that computes";
  auto last = kOwnCore.longest_spin(0);
  for (double lost = 0; lost <= 1; lost += 1.0 / 256) {
    const auto longest = kOwnCore.longest_spin(lost);
    EXPECT_LE(longest, last) << lost;
    EXPECT_GE(longest, kSleep) << lost;
    last = longest;
  }
}

TEST(Backoff, SpinsNoLongerThanItsSettingSays) {
  const Backoff shortest({20us, 1, true}), none({0us, 1, true});
  for (const double lost : {0.0, 0.1, 0.5, 1.0}) {
    EXPECT_EQ(shortest.longest_spin(lost), 20us) << lost;
    EXPECT_EQ(after(none, 0us, {lost}), Step::sleep) << lost;
  }
}

TEST(Backoff, OnItsOwnCoreItSpinsAndLooksNowAndThenAndNeverYields) {
  Backoff::Wait wait{.begin = kBegin};
  int looks = 0;
  for (int i = 1; i <= 160; ++i) {
    const Step step = kOwnCore.next(wait, kBegin + i * 1us, {});
    EXPECT_TRUE(step == Step::pause || step == Step::look) << i;
    looks += step == Step::look;
  }
  EXPECT_EQ(looks, 10);
  EXPECT_EQ(wait.polls, 160);
  EXPECT_EQ(kOwnCore.next(wait, kBegin + 1ms, {}), Step::sleep);
  EXPECT_EQ(after(kOwnCore, 999us, {.lost = 0}), Step::pause);
  EXPECT_EQ(after(kOwnCore, kSleep, {.lost = 0.5}), Step::sleep);
  EXPECT_EQ(after(kOwnCore, kSleep - 1us, {.lost = 0.5}), Step::pause);
}

TEST(Backoff, OnSharedCoresItYieldsAndNapsWhereOneNumberIsAll) {
  EXPECT_EQ(after(kSharedCore, 10us, {.can_nap = true}), Step::nap);
  EXPECT_EQ(after(kSharedCore, 10us, {}), Step::yield);
  EXPECT_EQ(after(kSharedCore, 10us, {.lost = 0.9}), Step::yield) << "turns of ranks look like losses";
  EXPECT_EQ(after(kSharedCore, 1ms, {}), Step::sleep);
}

TEST(Backoff, TwoRanksACoreYieldForAsLongAsASleepTakesBeforeTheyNap) {
  Backoff backoff({1ms, 2, true});
  EXPECT_EQ(after(backoff, kSleep - 1us, {.can_nap = true}), Step::yield);
  EXPECT_EQ(after(backoff, kSleep, {.can_nap = true}), Step::nap);
  for (int i = 0; i < 2; ++i) backoff.yielded(kBegin - 3ms, kBegin);  // another program's time slices
  EXPECT_EQ(after(backoff, 0us, {.can_nap = true}), Step::nap);
}

TEST(Backoff, WherePollsAreSystemCallsItYieldsUntilAYieldIsDear) {
  EXPECT_EQ(after(kSockets, 900us, {.lost = 0.2}), Step::yield);
  EXPECT_EQ(after(kSockets, 0us, {.lost = 0.5}), Step::sleep);
}

TEST(Backoff, SleepsAtOnceAfterASleepInVainAndWhileDataStreams) {
  for (const Backoff* backoff : {&kOwnCore, &kSharedCore, &kSockets}) {
    EXPECT_EQ(after(*backoff, 0us, {.can_nap = true}, {.overslept = true}), Step::sleep);
    EXPECT_EQ(after(*backoff, 0us, {}, {.streams = true}), Step::sleep);
  }
}

/// Polls before the first decision that reads a clock.
int first_polls(const Backoff& backoff, Step between) {
  EXPECT_EQ(backoff.first(0), Step::poll);
  int i = 1;
  for (; backoff.first(i) != Step::sleep; ++i) {
    EXPECT_TRUE(backoff.first(i) == between || (between == Step::pause && backoff.first(i) == Step::poll))
        << i;
  }
  return i;
}

TEST(Backoff, FirstPollsReadNoClock) {
  EXPECT_EQ(first_polls(kOwnCore, Step::pause), 100);
  EXPECT_EQ(first_polls(kSharedCore, Step::yield), 20);
}

constexpr auto kSlice = 3ms;

TEST(Backoff, TwoRanksACoreDoWithoutYieldsForAWhileAfterTwoTimeSlices) {
  Backoff backoff({1ms, 2, true});
  Clock::time_point now{1h};
  for (int i = 0; i < 2; ++i) backoff.yielded(now, now + 500us);  // a peer's turn
  EXPECT_TRUE(backoff.may_yield(now + 500us));
  backoff.yielded(now, now + kSlice);
  EXPECT_TRUE(backoff.may_yield(now + kSlice));
  now += kSlice + 99ms;
  backoff.yielded(now, now + kSlice);
  EXPECT_FALSE(backoff.may_yield(now + kSlice + 99ms));
  Backoff::Wait wait{.begin = now};
  EXPECT_EQ(backoff.next(wait, now, {}), Step::sleep);
  EXPECT_TRUE(backoff.may_yield(now + kSlice + 100ms));
}

TEST(Backoff, LongYieldsFarApartAreNoNeighbour) {
  Backoff backoff({1ms, 2, true});
  for (Clock::time_point now{1h}; now < Clock::time_point{1h + 1s}; now += kSlice + 100ms) {
    backoff.yielded(now, now + kSlice);
    EXPECT_TRUE(backoff.may_yield(now + kSlice));
  }
}

TEST(Backoff, YieldsAreLeftOutForLongerBesideALastingNeighbour) {
  Backoff backoff({1ms, 2, true});
  Clock::time_point now{1h};
  backoff.yielded(now - kSlice, now);
  for (const auto memory : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    backoff.yielded(now, now + kSlice);
    now += kSlice + memory;
    EXPECT_FALSE(backoff.may_yield(now - 1ns)) << memory.count();
    EXPECT_TRUE(backoff.may_yield(now)) << memory.count();
  }
  now += 100ms;  // the neighbour has gone meanwhile
  backoff.yielded(now, now + kSlice);
  EXPECT_TRUE(backoff.may_yield(now + kSlice));
}

TEST(Backoff, OnlyTwoRanksACoreMeasureYields) {
  EXPECT_TRUE(Backoff({1ms, 2, true}).measures_yields());
  for (const Backoff* backoff : {&kOwnCore, &kSharedCore, &kSockets})
    EXPECT_FALSE(backoff->measures_yields());
}

}  // namespace
}  // namespace kolo::engine
