// Deadlines: one budget for nested waits.
#include "base/deadline.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace kolo {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, PassesWhenItsTimeIsUp) {
  const Deadline deadline = Deadline::after(20ms);
  const auto start = Clock::now();
  while (!deadline.passed()) {
    ASSERT_LT(Clock::now() - start, 10s);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(Clock::now() - start, 19ms);
  EXPECT_EQ(deadline.left(), 0ns);
  EXPECT_EQ(deadline.left_ms(), 0);
}

TEST(Deadline, WithNoTimeHasPassed) {
  EXPECT_TRUE(Deadline::after(0ns).passed());
  EXPECT_TRUE(Deadline::after(-1s).passed());
  EXPECT_EQ(Deadline::after(-1s).left(), 0ns) << "never negative: poll would wait for ever";
}

TEST(Deadline, MillisecondsAreRoundedUpAndCapped) {
  // If it were rounded down, a wait of less than a millisecond would spin.
  const Deadline deadline = Deadline::after(1h);
  EXPECT_EQ(deadline.left_ms(), 1000);
  EXPECT_EQ(deadline.left_ms(7), 7);
  const int ms = Deadline::after(1h).left_ms(4'000'000);
  EXPECT_LE(ms, 3'600'000);
  EXPECT_GT(ms, 3'590'000);
  const Deadline close = Deadline::after(200us);
  const int close_ms = close.left_ms();
  EXPECT_TRUE(close_ms == 1 || close.passed()) << close_ms;
}

TEST(Deadline, NeverAndFarAwayDoNotOverflow) {
  for (const Deadline deadline : {Deadline::never(), Deadline::after(std::chrono::nanoseconds::max())}) {
    EXPECT_FALSE(deadline.passed());
    EXPECT_GT(deadline.left(), 24h * 365);
    EXPECT_EQ(deadline.left_ms(), 1000);
  }
}

}  // namespace
}  // namespace kolo
