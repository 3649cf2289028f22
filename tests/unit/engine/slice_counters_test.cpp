#include "engine/shared_memory/slice_counters.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/shared_memory/nap.hpp"

namespace kolo::engine::shared_memory {
namespace {

TEST(SliceCounters, EachIsTakenOnceAndFinishedWithTheLast) {
  SliceCounters shares{};
  std::uint64_t place = 0;
  for (const std::uint64_t count : {1u, 2u, 7u}) {
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(shares.take(place, count), i);
    EXPECT_EQ(shares.take(place, count), std::nullopt);
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_FALSE(shares.is_finished(place, count));
      EXPECT_EQ(shares.finish_one(place, count), i + 1 == count);
    }
    EXPECT_TRUE(shares.is_finished(place, count));
    place += 3;
  }
}

TEST(SliceCounters, ThoseOfAnEarlierCallAreGone) {
  SliceCounters shares{};
  EXPECT_EQ(shares.take(8, 3), 0u);
  EXPECT_EQ(shares.take(7, 3), std::nullopt);
  EXPECT_EQ(shares.take(8, 3), 1u);
  EXPECT_FALSE(shares.finish_one(8, 3));
  EXPECT_TRUE(shares.is_finished(7, 3));
}

TEST(SliceCounters, OneRankIsTheLastToArriveAndOpensTheCall) {
  SliceCounters shares{};
  for (const std::uint64_t place : {0u, 32u, 64u}) {
    EXPECT_FALSE(shares.arrive(place, 3));
    EXPECT_FALSE(shares.arrive(place, 3));
    EXPECT_FALSE(shares.is_open(place));
    EXPECT_TRUE(shares.arrive(place, 3));
    shares.open(place);
    EXPECT_TRUE(shares.is_open(place));
    EXPECT_FALSE(shares.is_finished(place, 1));
    EXPECT_TRUE(shares.finish_one(place, 1));
    EXPECT_TRUE(shares.is_finished(place, 1));
    EXPECT_FALSE(shares.is_open(place + 32)) << "of the next call that uses the counters";
  }
}

// Without the promise each of these would last an hour.
TEST(SliceCounters, ANapEndsForAnInterruptThatCameFirst) {
  SliceCounters counters{};
  std::atomic<bool> interrupted = false;
  interrupt_nap(counters, interrupted);
  nap(counters, counters.finished, std::chrono::hours(1), false, interrupted);
  EXPECT_EQ(counters.napping, 0);
}

TEST(SliceCounters, ANapEndsForAnInterruptAtAnyTime) {
  SliceCounters counters{};
  std::atomic<bool> interrupted = false;
  for (int i = 0; i < 2000; ++i) {
    interrupted = false;
    std::atomic<bool> begins = false;
    std::thread napper([&] {
      begins = true;
      nap(counters, counters.finished, std::chrono::hours(1), i % 2 == 0, interrupted);
    });
    while (!begins) std::this_thread::yield();
    for (int spin = 0; spin < i % 64 * 10; ++spin) interrupted.load();
    interrupt_nap(counters, interrupted);
    napper.join();
  }
}

TEST(SliceCounters, ANapEndsWhenTheNumberChanges) {
  SliceCounters counters{};
  const std::atomic<bool> interrupted = false;
  nap(counters, counters.finished + 1, std::chrono::hours(1), false, interrupted);  // it has changed already
  for (std::uint64_t place = 0; place < 200; ++place) {
    const std::uint64_t seen = counters.finished;
    std::thread napper([&] { nap(counters, seen, std::chrono::hours(1), false, interrupted); });
    counters.open(place);
    wake_nappers(counters);
    napper.join();
  }
}

TEST(SliceCounters, AmongThreads) {
  constexpr std::uint64_t kPlaces = 2000, kShares = 5;
  SliceCounters shares{};
  std::vector<std::array<int, kShares>> done(kPlaces);
  std::vector<int> last(kPlaces, 0);
  const auto work = [&] {
    for (std::uint64_t place = 0; place < kPlaces; ++place) {
      while (const auto share = shares.take(place, kShares)) {
        ++done[place][*share];
        if (shares.finish_one(place, kShares)) ++last[place];
      }
      while (!shares.is_finished(place, kShares)) std::this_thread::yield();
      // The writes of the other threads are visible.
      for (const int times : done[place]) EXPECT_EQ(times, 1);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  for (const int times : last) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace kolo::engine::shared_memory
