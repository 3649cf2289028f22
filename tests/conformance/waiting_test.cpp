// The log messages about a rank for which its peers wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
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

class AtOnce : public ::testing::TestWithParam<const char*> {};

TEST_P(AtOnce, ComesInPartsOrByACallback) {
  const auto store = make_memory_store();
  std::promise<void> waited, called;
  const auto rank = [&](int r) {
    Communicator c = Communicator::create(store, r, 2, {.timeout = 60s, .transports = GetParam()});
    std::vector<float> data(100'000, 1);
    const CallOptions options{.waits_at_once = true};
    if (r == 1) waited.get_future().wait();
    Work work = c.all_reduce_async(Buffer(data), ReduceOp::sum, options);
    const bool is_early = r == 0 && work.wait(1ms);
    EXPECT_FALSE(is_early);
    if (r == 0) waited.set_value();
    while (!work.wait(1ms)) {
    }
    EXPECT_EQ(data, std::vector<float>(100'000, 2));
    if (r == 1) return c.all_reduce(data);
    work = c.all_reduce_async(Buffer(data), ReduceOp::sum, options);
    work.then([&](const Work& done) {
      EXPECT_EQ(done.error(), nullptr);
      called.set_value();
    });
    EXPECT_EQ(called.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_EQ(data.back(), 4);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(, AtOnce, ::testing::Values("shm", "inproc", "tcp"));

}  // namespace
}  // namespace kolo::test
