// How much of its core a thread loses, from times that are given.
#include "base/core_loss.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace kolo {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point kBegin{1h};

/// A thread that has run and waited for so many ms in each of some windows, one after the other.
class PlayedThread {
 public:
  CoreLoss loss;

  void go_on(int windows, double ran_ms, double waited_ms) {
    for (int i = 0; i < windows; ++i) {
      now_ += 64ms;
      times_.ran += ran_ms * 1e6;
      times_.waited += waited_ms * 1e6;
      ASSERT_TRUE(loss.is_due(now_));
      loss.note(now_, times_);
      ASSERT_FALSE(loss.is_due(now_ + 63ms));
    }
  }

 private:
  Clock::time_point now_ = kBegin;
  CoreLoss::Times times_{5e9, 3e9};  // before it was watched
};

TEST(CoreLoss, IsTheShareOfTheTimeInWhichAThreadCouldHaveRun) {
  PlayedThread thread;
  EXPECT_EQ(thread.loss.share(), 0);
  thread.go_on(1, 0, 0);
  EXPECT_EQ(thread.loss.share(), 0) << "what was before it was watched does not count";
  thread.go_on(1, 48, 16);
  EXPECT_DOUBLE_EQ(thread.loss.share(), 0.25);
  thread.go_on(20, 3, 1);
  EXPECT_NEAR(thread.loss.share(), 0.25, 1e-6) << "sleep does not count";
}

TEST(CoreLoss, NoticesANeighbourWithinTwoWindowsAndForgetsItWithinFour) {
  PlayedThread thread;
  thread.go_on(20, 64, 0);
  thread.go_on(2, 32, 32);
  EXPECT_GT(thread.loss.share(), 0.3);
  thread.go_on(20, 32, 32);
  EXPECT_NEAR(thread.loss.share(), 0.5, 1e-4);
  thread.go_on(4, 64, 0);
  EXPECT_LT(thread.loss.share(), 0.05);
}

TEST(CoreLoss, AfterALongTimeOnlyThatTimeCounts) {
  PlayedThread thread;
  thread.go_on(20, 32, 32);
  CoreLoss& loss = thread.loss;
  loss.note(kBegin + 1h, CoreLoss::Times{1e13, 3e9 + 20 * 32e6});
  EXPECT_LT(loss.share(), 1e-3);
}

TEST(CoreLoss, IsZeroWhereTheSystemDoesNotTell) {
  CoreLoss loss;
  for (int i = 0; i < 5; ++i) loss.note(kBegin + i * 64ms, std::nullopt);
  EXPECT_EQ(loss.share(), 0);
}

TEST(CoreLoss, OfThisThreadIsAShare) {
  for (int i = 0; i < 5; ++i) {
    const double share = core_loss(Clock::now() + i * 64ms);
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
  }
}

}  // namespace
}  // namespace kolo
