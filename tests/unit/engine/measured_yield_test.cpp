#include "engine/measured_yield.hpp"

#include <gtest/gtest.h>

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kSlice = 3ms;

TEST(MeasuredYield, IsCostlyForAWhileAfterTwoTimeSlices) {
  engine::MeasuredYield yield(1);
  Clock::time_point now{1h};
  yield.note(now, now + 20us);
  EXPECT_FALSE(yield.is_costly(now));
  yield.note(now, now + kSlice);
  EXPECT_FALSE(yield.is_costly(now + kSlice));
  now += kSlice + 99ms;
  yield.note(now, now + kSlice);
  EXPECT_TRUE(yield.is_costly(now + kSlice + 99ms));
  EXPECT_FALSE(yield.is_costly(now + kSlice + 100ms));
}

TEST(MeasuredYield, IsNotCostlyForLongYieldsFarApart) {
  engine::MeasuredYield yield(1);
  for (Clock::time_point now{1h}; now < Clock::time_point{1h + 1s}; now += kSlice + 100ms) {
    yield.note(now, now + kSlice);
    EXPECT_FALSE(yield.is_costly(now + kSlice));
  }
}

TEST(MeasuredYield, IsCostlyForLongerBesideALastingNeighbour) {
  engine::MeasuredYield yield(1);
  Clock::time_point now{1h};
  yield.note(now - kSlice, now);
  for (const auto memory : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    yield.note(now, now + kSlice);
    now += kSlice + memory;
    EXPECT_TRUE(yield.is_costly(now - 1ns)) << memory.count();
    EXPECT_FALSE(yield.is_costly(now)) << memory.count();
  }
  now += 100ms;  // the neighbour has gone meanwhile
  yield.note(now, now + kSlice);
  EXPECT_FALSE(yield.is_costly(now + kSlice));
}

TEST(MeasuredYield, APeersTurnIsNotATimeSlice) {
  engine::MeasuredYield two_ranks_a_core(2);
  Clock::time_point now{1h};
  for (int i = 0; i < 2; ++i) two_ranks_a_core.note(now, now + 500us);
  EXPECT_FALSE(two_ranks_a_core.is_costly(now + 500us));
  for (int i = 0; i < 2; ++i) two_ranks_a_core.note(now, now + kSlice);
  EXPECT_TRUE(two_ranks_a_core.is_costly(now + kSlice));

  engine::MeasuredYield many_ranks_a_core(8);
  for (int i = 0; i < 2; ++i) many_ranks_a_core.note(now, now + kSlice);
  EXPECT_FALSE(many_ranks_a_core.is_costly(now + kSlice));
}

}  // namespace
}  // namespace kolo::test
