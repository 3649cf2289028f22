// The log messages about a rank for which its peers wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

TEST(Waiting, RankZeroSaysAfterTenSecondsWhoIsMissingAndWhereItWasLastSeen) {
  ::testing::internal::CaptureStderr();
  // Their first call is expect_ranks' own.
  expect_ranks({.size = 3}, [](Communicator& c) {
    std::vector<float> data(4), all(12);
    c.all_reduce(data);
    c.all_gather(data, all);
    if (c.rank() == 1) std::this_thread::sleep_for(11s);
    c.all_reduce(data);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("call 4, all_reduce(sum of 4 float32"), std::string::npos) << said;
  EXPECT_NE(said.find("waiting 10 s for rank 1 (last seen in all_gather #3)"), std::string::npos) << said;
}

TEST(Waiting, IsOneSpanOfTheTimelineHoweverLong) {
  const auto store = make_memory_store();
  const auto timeline = std::make_shared<Timeline>();
  const auto rank = [&](int r) {
    Communicator c = Communicator::create(
        store, r, 2, {.timeout = 60s, .transports = "inproc", .timeline = r == 0 ? timeline : nullptr});
    std::vector<float> data(4);
    if (r == 1) std::this_thread::sleep_for(500ms);
    c.all_reduce(data);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  const std::string events = timeline->chrome_events(0);
  std::size_t spans = 0;
  for (std::size_t at = 0; (at = events.find("for rank 1", at)) != std::string::npos; ++at) ++spans;
  EXPECT_GE(spans, 1u) << events;
  EXPECT_LE(spans, 5u) << events;
}

TEST(Waiting, RanksThatMeetSayAfterTenSecondsWhoHasNotCome) {
  ::testing::internal::CaptureStderr();
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == 1) std::this_thread::sleep_for(11s);
      Communicator::create(store, rank, 3, {.timeout = 60s}).barrier();
    });
  }
  EXPECT_THROW(Communicator::create(make_memory_store(), 1, 2, {.timeout = 10'500ms}), RendezvousError);
  for (std::thread& thread : threads) thread.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("waiting 10 s for rank 1 of 3 to come (meeting at memory)"), std::string::npos) << said;
  EXPECT_NE(said.find("waiting 10 s for rank 0 of 2 to come (meeting at memory)"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

}  // namespace
}  // namespace kolo::test
