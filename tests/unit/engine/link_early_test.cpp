// Large unexpected messages (before their receives are posted) over a stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "unit/engine/link_pair.hpp"

namespace kolo::test {
namespace {

// As far as there is credit.
TEST(EarlyMessages, AreKeptAsideOrWait) {
  constexpr std::uint32_t kMessages = 30;
  constexpr std::uint64_t kBytes = transport::kStreamEagerLimit - kMessages;
  for (unsigned seed = 0; seed < 4; ++seed) {
    const bool in_order = seed % 2 == 1;
    Pair pair(false, seed, 100'000, 1 << 20);
    std::vector<std::unique_ptr<Message>> sends, receives;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, kBytes + i));
      fill(*sends.back(), i);
      sends.back()->acknowledged = in_order && i % 7 == 0;
      sends.back()->is_warm = i % 3 == 0;
      receives.push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, kBytes + i, i % 2 == 0));
    }
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      pair.links[0]->post_send(*sends[i]);
      if (i % 10 == 0) pair.run();
    }
    pair.run();
    EXPECT_EQ(pair.heard[1].unexpected, static_cast<int>(kMessages));
    const std::vector<bool> have_credit = with_credit(sends);
    if (in_order) {
      for (std::uint32_t i = 0; i < kMessages; ++i)
        EXPECT_EQ(sends[i]->done, have_credit[i] && !sends[i]->acknowledged) << i;
    } else {
      EXPECT_EQ(std::ranges::count(sends, true, &Message::done), std::ranges::count(have_credit, true));
    }
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      pair.links[1]->post_receive(*receives[i]);
      if (seed < 2) pair.run();
    }
    pair.run();
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(sends[i]->done && receives[i]->done) << "seed " << seed << " message " << i;
      ASSERT_EQ(sends[i]->memory, receives[i]->memory) << "seed " << seed << " message " << i;
    }
    for (auto& link : pair.links) EXPECT_FALSE(link->is_waiting() || link->wants_write());
  }
}

TEST(EarlyMessages, AReceiveMayBePostedWhileItsMessageIsComing) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::uint64_t come = std::vector<std::uint64_t>{1, 1000, 50'000, 299'000}[seed % 4];
    const bool stores = seed % 8 < 4, agrees = seed % 5 != 4, is_met_first = seed % 3 != 0;
    Pair pair(false, seed, 101 + seed * 50, std::size_t{1} << 30);
    Message first({1, 0, 1}, 100'000), first_receive({1, 0, 1}, 100'000);
    Message send({1, 1, 1}, 300'000), receive({1, 1, 1}, 300'000, stores);
    Message last({1, 2, 1}, 9000), last_receive({1, 2, 1}, 9000);
    fill(first, 1);
    fill(send, 2);
    fill(last, 3);
    send.acknowledged = seed % 2 == 0;
    if (!agrees) send.call.reduction = 9;
    if (is_met_first) pair.links[1]->post_receive(first_receive);
    pair.links[0]->post_send(first);
    pair.links[0]->post_send(send);
    pair.links[0]->post_send(last);
    while (pair.links[1]->payload_moved() < first.bytes + come) {
      for (auto& link : pair.links) ASSERT_TRUE(link->progress(true).ok());
    }
    EXPECT_TRUE(pair.links[1]->has_unexpected(send.tag));
    EXPECT_EQ(pair.heard[1].unexpected, is_met_first ? 1 : 2);
    pair.links[1]->post_receive(receive);
    EXPECT_FALSE(pair.links[1]->has_unexpected(send.tag));
    EXPECT_FALSE(receive.done);
    if (come > 100) {
      EXPECT_EQ(receive.consumed > 0, agrees) << "what has come is taken at once";
    }
    if (!is_met_first) pair.links[1]->post_receive(first_receive);
    pair.links[1]->post_receive(last_receive);
    pair.run();
    EXPECT_TRUE(first_receive.done && last_receive.done);
    EXPECT_EQ(first.memory, first_receive.memory);
    EXPECT_EQ(last.memory, last_receive.memory);
    EXPECT_EQ(pair.heard[1].mismatches, agrees ? 0 : 1);
    EXPECT_EQ(receive.done, agrees);
    if (!agrees) continue;
    EXPECT_TRUE(send.done);
    EXPECT_EQ(send.memory, receive.memory);
    for (auto& link : pair.links) EXPECT_FALSE(link->is_waiting());
  }
}

TEST(EarlyMessages, OneLongerThanIsSentUnaskedWaitsForItsReceive) {
  for (const bool is_posted : {true, false}) {
    Pair pair(false, 1, 100'000);
    Message send({1, 0, 1}, transport::kStreamEagerLimit + 1),
        receive({1, 0, 1}, transport::kStreamEagerLimit + 1);
    fill(send, 1);
    if (is_posted) pair.links[1]->post_receive(receive);
    pair.links[0]->post_send(send);
    ASSERT_TRUE(pair.links[0]->progress(true).ok());
    EXPECT_EQ(pair.state->bytes[0].size(), sizeof(transport::FrameHeader));
    pair.run();
    EXPECT_EQ(send.done, is_posted);
    if (!is_posted) pair.links[1]->post_receive(receive);
    pair.run();
    EXPECT_TRUE(send.done && receive.done);
    EXPECT_EQ(send.memory, receive.memory);
  }
}

// Messages of the unexpected queue are also consumed within a budget, so a rank with a slow reduction answers
// in between.
TEST(EarlyMessages, AreTakenInByTurns) {
  struct Slow final : Message {
    using Message::Message;
    void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      Message::consume(offset, from, size);
    }
  };
  constexpr std::uint32_t kMessages = 10;
  Pair pair(false, 1, 1 << 20);
  std::vector<std::unique_ptr<Message>> sends;
  std::vector<std::unique_ptr<Slow>> receives;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, 500'000));
    fill(*sends.back(), i);
    sends.back()->acknowledged = i % 2 == 0;
    pair.links[0]->post_send(*sends.back());
  }
  pair.run();
  const auto done = [&] { return std::ranges::count(receives, true, &Message::done); };
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    receives.push_back(std::make_unique<Slow>(transport::Tag{1, i, 1}, 500'000));
    pair.links[1]->post_receive(*receives.back());
  }
  for (std::uint32_t turns = 0; pair.links[1]->has_pulls(); ++turns) {
    EXPECT_LE(done(), turns + 1);
    EXPECT_FALSE(pair.links[1]->is_waiting());  // for the peer
    ASSERT_TRUE(pair.links[1]->progress(false).ok());
  }
  EXPECT_EQ(done(), kMessages);
  pair.run();
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(sends[i]->done);
    ASSERT_EQ(sends[i]->memory, receives[i]->memory);
  }
}

}  // namespace
}  // namespace kolo::test
