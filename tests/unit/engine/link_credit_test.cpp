// Credit for eager messages: exactly how much of them is kept ahead of their receives.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/engine/link_pair.hpp"

namespace kolo::test {
namespace {

struct CreditOver : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PullingOrNot, CreditOver, ::testing::Bool());

TEST_P(CreditOver, ShortMessagesFarAheadOfTheirReceivesHaveCreditOrWaitAtTheSender) {
  constexpr std::uint32_t kMessages = 3000;  // 23 MiB
  Pair pair(GetParam(), 3, 100'000, 1 << 20);
  std::vector<std::unique_ptr<Message>> sends;
  const auto send = [&](std::uint32_t i, std::uint64_t size) {
    sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, size));
    fill(*sends.back(), i);
    sends.back()->acknowledged = i % 7 == 0;
    pair.links[0]->post_send(*sends.back());
  };
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    send(i, i % 100 == 99 ? 0 : transport::kShortMessageBytes);
    if (i % 10 == 0) pair.run();
  }
  pair.run();
  EXPECT_EQ(pair.heard[1].unexpected, static_cast<int>(kMessages)) << "no message blocks those behind it";
  const std::vector<bool> have_credit = with_credit(sends);
  for (std::uint32_t i = 0; i < kMessages; ++i)
    ASSERT_EQ(sends[i]->done, have_credit[i] && !sends[i]->acknowledged) << i;
  const auto receive = [&](std::uint32_t i) {
    Message received(transport::Tag{1, i, 5}, sends[i]->bytes, i % 2 == 0);
    pair.links[1]->post_receive(received);
    pair.run();
    ASSERT_TRUE(received.done) << i;
    ASSERT_EQ(received.memory, sends[i]->memory) << i;
  };
  for (std::uint32_t i = 0; i < kMessages; ++i) receive(i);
  EXPECT_TRUE(std::ranges::all_of(sends, [](const auto& message) { return message->done; }));
  send(kMessages, transport::kShortMessageBytes);
  pair.run();
  EXPECT_TRUE(sends.back()->done) << "credit has come back";
  receive(kMessages);
  for (auto& link : pair.links) EXPECT_FALSE(link->is_waiting());
}

TEST_P(CreditOver, BothMaySendFarAhead) {
  constexpr std::uint32_t kMessages = 3000;  // 23 MiB
  Pair pair(GetParam(), 3, 100'000, 1 << 20);
  std::vector<std::unique_ptr<Message>> sends[2];
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    for (const int end : {0, 1}) {
      sends[end].push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, transport::kShortMessageBytes));
      fill(*sends[end].back(), 2 * i + static_cast<unsigned>(end));
      pair.links[end]->post_send(*sends[end].back());
    }
  }
  pair.run();
  for (const auto& sent : sends) {
    const std::vector<bool> have_credit = with_credit(sent);
    for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(sent[i]->done, have_credit[i]) << i;
  }
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    for (const int end : {0, 1}) {
      Message received(transport::Tag{1, i, 5}, transport::kShortMessageBytes, i % 2 == 0);
      pair.links[end]->post_receive(received);
      pair.run();
      ASSERT_TRUE(received.done) << i;
      ASSERT_EQ(received.memory, sends[1 - end][i]->memory) << i;
    }
  }
  for (auto& link : pair.links) EXPECT_FALSE(link->is_waiting() || link->wants_write());
}

// 40 MiB to a rank that is on time: it answers with credit alone, a frame for each 8 MiB.
TEST(Credit, ComesBackWhileMessagesStream) {
  for (const std::uint64_t bytes : {std::uint64_t{5000}, transport::kStreamEagerLimit}) {
    Pair pair(false, 1, 1 << 20, std::size_t{4} << 20);
    std::vector<std::unique_ptr<Message>> messages;
    std::uint64_t cost = 0;
    std::uint64_t batches = 0;
    for (std::uint32_t i = 0; i < (40 << 20) / bytes; ++i) {
      const transport::Tag tag{1, i, 1};
      cost += transport::Credit::cost_of(bytes);
      if (cost >= transport::Credit::kBatch) cost = 0, ++batches;
      messages.push_back(std::make_unique<Message>(tag, bytes, true));
      pair.links[1]->post_receive(*messages.back());
      messages.push_back(std::make_unique<Message>(tag, bytes));
      fill(*messages.back(), i);
      pair.links[0]->post_send(*messages.back());
    }
    pair.run();
    EXPECT_TRUE(std::ranges::all_of(messages, [](const auto& message) { return message->done; }));
    EXPECT_GE(batches, 4u);
    EXPECT_EQ(pair.links[0]->bytes_read(), batches * sizeof(transport::FrameHeader));
    EXPECT_EQ(pair.state->lone_credits[1], static_cast<int>(batches));
  }
}

TEST(Credit, GoesAlongWithMessagesWhereRanksExchangeThem) {
  constexpr std::uint64_t kBytes = 1'000'000;
  Pair pair(false, 1, 4 << 20);
  for (std::uint32_t i = 0; i < 60; ++i) {
    std::vector<std::unique_ptr<Message>> messages;
    for (const int end : {0, 1}) {
      messages.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, kBytes));
      pair.links[end]->post_receive(*messages.back());
      messages.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, kBytes));
      fill(*messages.back(), i);
      pair.links[end]->post_send(*messages.back());
    }
    pair.run();
    ASSERT_TRUE(std::ranges::all_of(messages, [](const auto& message) { return message->done; }));
  }
  for (const int end : {0, 1}) {
    // A write may end between a message and the credit behind it.
    EXPECT_LE(pair.state->lone_credits[end], 1);
    // Every message has had credit: the peer has written messages and credit, a frame for at least 4 MiB.
    const std::uint64_t credits =
        pair.links[end]->bytes_read() - 60 * (kBytes + sizeof(transport::FrameHeader));
    EXPECT_EQ(credits % sizeof(transport::FrameHeader), 0u);
    EXPECT_LE(credits / sizeof(transport::FrameHeader), 60 * kBytes / transport::Credit::kWorthSending);
  }
}

// A message that waits for its receive at the sender blocks none of those behind it.
TEST(Credit, AMessageWithoutItIsOvertaken) {
  constexpr std::uint64_t kBytes = 1'000'000;
  Pair pair(false, 1, 1 << 20);
  std::vector<std::unique_ptr<Message>> sends;
  for (std::uint32_t i = 0; i < 20; ++i) {
    sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, i < 19 ? kBytes : 8));
    fill(*sends.back(), i);
    pair.links[0]->post_send(*sends.back());
  }
  pair.run();
  const std::vector<bool> have_credit = with_credit(sends);
  ASSERT_FALSE(have_credit[18]);
  for (const std::uint32_t i : {19u, 18u, 0u}) {
    EXPECT_EQ(sends[i]->done, have_credit[i]);
    Message receive({1, i, 1}, sends[i]->bytes);
    pair.links[1]->post_receive(receive);
    pair.run();
    EXPECT_TRUE(receive.done && sends[i]->done) << i;
    EXPECT_EQ(receive.memory, sends[i]->memory);
  }
}

}  // namespace
}  // namespace kolo::test
