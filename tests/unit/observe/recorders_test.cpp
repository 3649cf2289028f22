// What becomes of an engine's events: counts on the page of metrics, spans of a timeline.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "observe/metrics_recorder.hpp"
#include "observe/timeline_recorder.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr observe::ObservedCall kBarrier{0, "barrier", 4, 0};
constexpr observe::ObservedCall kAllReduce{1, "all_reduce", 5, 400};

observe::RankMetrics rank_1_of_3() {
  observe::RankMetrics described;
  described.group = "g";
  described.rank = 1;
  described.host = "a";
  described.collectives = {{.name = "barrier"}, {.name = "all_reduce"}};
  for (int peer = 0; peer < 3; ++peer)
    described.peers.push_back({.rank = peer, .host = "b", .transport = "tcp"});
  return described;
}

TEST(MetricsRecorder, CountsCallsAndPeers) {
  observe::MetricsRecorder recorder(std::make_shared<observe::MetricsPage>(), rank_1_of_3());
  recorder.began(kAllReduce);
  recorder.began(kAllReduce);
  recorder.failed(kAllReduce);
  recorder.transferred(kAllReduce, true, 2, 100, {});
  recorder.transferred(kAllReduce, true, 2, 200, {});
  recorder.transferred(kAllReduce, false, 0, 7, {});
  recorder.refused(0, 3);
  recorder.refused(0, 4);
  recorder.lost(2);
  const observe::RankMetrics shown = recorder.metrics();
  EXPECT_EQ(shown.collectives[0].operations, 0u);
  EXPECT_EQ(shown.collectives[1].operations, 2u);
  EXPECT_EQ(shown.collectives[1].bytes, 800u);
  EXPECT_EQ(shown.collectives[1].errors, 1u);
  ASSERT_EQ(shown.peers.size(), 2u) << "without the rank itself";
  const observe::PeerMetrics& first = shown.peers[0];
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(first.transport, "tcp");
  EXPECT_EQ(first.received_bytes, 7u);
  EXPECT_EQ(first.received_messages, 1u);
  EXPECT_EQ(first.sent_messages, 0u);
  EXPECT_EQ(first.connection_failures, 4u);
  EXPECT_FALSE(first.lost);
  const observe::PeerMetrics& last = shown.peers[1];
  EXPECT_EQ(last.rank, 2);
  EXPECT_EQ(last.sent_bytes, 300u);
  EXPECT_EQ(last.sent_messages, 2u);
  EXPECT_TRUE(last.lost);
}

TEST(MetricsRecorder, PeersShareAWait) {
  observe::MetricsRecorder recorder(std::make_shared<observe::MetricsPage>(), rank_1_of_3());
  const auto begin = std::chrono::steady_clock::now();
  recorder.waited({0, 2}, begin, begin + 10ms);
  recorder.waited({2}, begin, begin + 1ms);
  const observe::RankMetrics shown = recorder.metrics();
  EXPECT_EQ(shown.peers[0].waited, 5ms);
  EXPECT_EQ(shown.peers[1].waited, 6ms);
}

TEST(MetricsRecorder, IsOnThePageWhileItLives) {
  const auto page = std::make_shared<observe::MetricsPage>();
  EXPECT_EQ(page->text().find("kolo_age_seconds{"), std::string::npos);
  {
    observe::MetricsRecorder recorder(page, rank_1_of_3());
    recorder.began(kBarrier);
    EXPECT_NE(page->text().find("collective=\"barrier\"} 1"), std::string::npos) << page->text();
  }
  EXPECT_EQ(page->text().find("kolo_age_seconds{"), std::string::npos);
}

class TimelineRecorderTest : public testing::Test {
 protected:
  std::string events() const { return timeline->chrome_events(1); }

  const std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>();
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

TEST_F(TimelineRecorderTest, ACallIsASpan) {
  observe::TimelineRecorder recorder(timeline, {});
  EXPECT_TRUE(recorder.needs_times());
  recorder.ended(kAllReduce, 1234, begin, begin + 1ms);
  EXPECT_EQ(timeline->size(), 1u);
  EXPECT_NE(events().find("\"call\":5,\"sent_bytes\":1234"), std::string::npos) << events();
}

TEST_F(TimelineRecorderTest, WaitsForTheSamePeersWithoutAGapAreOne) {
  observe::TimelineRecorder recorder(timeline, {});
  recorder.waited({0, 2}, begin, begin + 10ms);
  recorder.waited({0, 2}, begin + 10ms, begin + 20ms);
  EXPECT_EQ(timeline->size(), 0u) << "it may go on";
  recorder.waited({0, 2}, begin + 30ms, begin + 40ms);
  EXPECT_EQ(timeline->size(), 1u) << "there was a gap";
  recorder.waited({2}, begin + 40ms, begin + 50ms);
  EXPECT_EQ(timeline->size(), 2u) << "other peers";
  recorder.ended(kBarrier, 0, begin, begin + 60ms);
  EXPECT_EQ(timeline->size(), 4u) << "the end of a call ends the wait";
  EXPECT_NE(events().find("for rank 0, 2"), std::string::npos) << events();
}

TEST_F(TimelineRecorderTest, TheLastWaitIsRecordedAtTheEnd) {
  {
    observe::TimelineRecorder recorder(timeline, {});
    recorder.waited({0}, begin, begin + 10ms);
  }
  EXPECT_EQ(timeline->size(), 1u);
}

TEST_F(TimelineRecorderTest, MessagesToAPeerAndFromItHaveLanesOfTheirOwn) {
  observe::TimelineRecorder recorder(timeline, {});
  recorder.transferred(kAllReduce, true, 2, 100, begin);
  recorder.transferred(kAllReduce, false, 2, 200, begin);
  EXPECT_NE(events().find("to rank 2"), std::string::npos) << events();
  EXPECT_NE(events().find("from rank 2"), std::string::npos) << events();
  EXPECT_NE(events().find("\"bytes\":200"), std::string::npos) << events();
}

}  // namespace
}  // namespace kolo::test
