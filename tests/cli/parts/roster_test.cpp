// When a launcher starts again what has ended.
#include "launch/roster.hpp"

#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using namespace std::chrono_literals;

TEST(Restarts, WaitTwiceAsLongEachTimeAndNotForever) {
  const Clock::time_point now = Clock::now();
  Restarts restarts;
  for (const auto pause : {500ms, 1000ms, 2000ms, 4000ms, 8000ms, 16000ms, 30000ms, 30000ms})
    EXPECT_EQ(restarts.next(now, 8), std::optional<std::chrono::nanoseconds>(pause));
  EXPECT_EQ(restarts.next(now, 8), std::nullopt) << "the limit";
  EXPECT_EQ(restarts.next(now + Restarts::kWindow + 1s, 8), std::optional<std::chrono::nanoseconds>(500ms))
      << "what is long ago counts no more";
}

}  // namespace
}  // namespace kolo::cli
