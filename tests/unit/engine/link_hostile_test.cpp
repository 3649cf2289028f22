// Attacks of a hostile peer on a Link.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "unit/engine/link_pair.hpp"

namespace kolo::test {
namespace {

void expect_refused(Pair& pair, const char* word) {
  pair.run();
  EXPECT_EQ(pair.links[0]->status().code(), Code::system);
  EXPECT_NE(pair.links[0]->status().message().find(word), std::string::npos)
      << pair.links[0]->status().message();
}

TEST(HostilePeer, NonsenseEndsTheLinkWithAWord) {
  const Message message({1, 0, 1}, 20'000);
  {
    Pair pair(false, 1, 1000);
    transport::FrameHeader header;
    header.magic = 1;
    pair.say(header);
    expect_refused(pair, "none");
  }
  {
    Pair pair(false, 1, 1000);
    transport::FrameHeader header = frame(transport::FrameType::control, message);
    header.bytes = ~0ull;
    pair.say(header);
    expect_refused(pair, "bytes");
  }
  for (const std::uint64_t bytes : {transport::kStreamEagerLimit + 1, std::uint64_t(~0ull)}) {
    Pair pair(false, 1, 1000);
    transport::FrameHeader header = frame(transport::FrameType::eager, message);
    header.bytes = bytes;
    pair.say(header);
    expect_refused(pair, "nobody");
  }
  {
    Pair pair(false, 1, 1000);
    pair.say(frame(transport::FrameType::ack, message));
    expect_refused(pair, "not sent");
  }
  for (const bool has_sent : {false, true}) {  // what was sent cost less
    Pair pair(false, 1, 1000);
    Message send({1, 0, 1}, message.bytes);
    fill(send, 1);
    if (has_sent) pair.links[0]->post_send(send);
    pair.run();
    transport::FrameHeader header = frame(transport::FrameType::credit, message);
    header.bytes = has_sent ? transport::Credit::cost_of(send.bytes) + 1 : 1;
    pair.say(header);
    expect_refused(pair, "credit");
  }
}

// A `ack` before the message has left would free memory that is still being written to the stream.
TEST(HostilePeer, CannotFinishASendThatIsStillBeingWritten) {
  for (const std::uint64_t size : {8000u, 60'000u, 2'000'000u}) {
    Pair pair(false, 1, 1'000'000, 1000);  // room for a part of it
    Message send({1, 0, 1}, size);
    fill(send, 1);
    send.acknowledged = true;
    pair.links[0]->post_send(send);
    pair.links[0]->progress(true).ok();
    if (size > transport::kStreamEagerLimit) pair.say(frame(transport::FrameType::cts, send));
    pair.links[0]->progress(true).ok();
    ASSERT_TRUE(pair.links[0]->wants_write());
    pair.say(frame(transport::FrameType::ack, send));
    pair.links[0]->progress(true).ok();
    EXPECT_FALSE(send.done);
    EXPECT_FALSE(pair.links[0]->status().ok());
  }
}

TEST(HostilePeer, CannotHaveAMessageSentTwice) {
  Pair pair(false, 1, 1'000'000);
  Message send({1, 0, 1}, 2'000'000);
  fill(send, 1);
  send.acknowledged = true;
  pair.links[0]->post_send(send);
  pair.links[0]->progress(false).ok();
  pair.say(frame(transport::FrameType::cts, send));
  pair.links[0]->progress(true).ok();
  pair.say(frame(transport::FrameType::cts, send));
  expect_refused(pair, "not offered");
}

// `cts` is refused for an eager message, and for a message that is not posted.
TEST(HostilePeer, CannotAskForAMessageThatWasNotOffered) {
  for (const bool is_posted : {true, false}) {
    Pair pair(false, 1, 1'000'000);
    Message send({1, 0, 1}, 100'000);
    send.acknowledged = true;
    fill(send, 1);
    if (is_posted) pair.links[0]->post_send(send);
    pair.say(frame(transport::FrameType::cts, send));
    expect_refused(pair, "not offered");
    EXPECT_FALSE(send.done);
  }
}

TEST(HostilePeer, CannotOfferAMessageTwice) {
  for (const bool pulls : {true, false}) {
    Pair pair(pulls, 1, 1'000'000);
    Message receive({1, 0, 1}, pulls ? 60'000 : 100);
    pair.links[0]->post_receive(receive);
    transport::FrameHeader offer = frame(transport::FrameType::rts, receive);
    offer.range.region = transport::FrameHeader::kNoRange;
    pair.say(offer);
    pair.links[0]->progress(true).ok();
    EXPECT_TRUE(pair.links[0]->status().ok());
    pair.say(offer);
    expect_refused(pair, "two offers");
  }
}

/// Says unexpected messages until they are refused; returns how many were kept.
std::uint64_t keeps(Pair& pair, const Message& message) {
  const std::vector<std::byte> payload(message.bytes);
  const int before = pair.heard[0].unexpected;
  while (pair.links[0]->status().ok()) {
    pair.say(frame(transport::FrameType::eager, message), payload);
    pair.links[0]->progress(true).ok();
  }
  expect_refused(pair, "credit");
  return static_cast<std::uint64_t>(pair.heard[0].unexpected - before);
}

TEST(HostilePeer, WhatIsKeptForItIsItsCredit) {
  for (const bool pulls : {false, true}) {
    for (const std::uint64_t bytes : {0u, 1u, 8192u, 1'000'000u}) {
      if (pulls && bytes > transport::kShortMessageBytes) continue;
      Pair pair(pulls, 1, 2'000'000);
      const std::uint64_t kept = keeps(pair, Message({1, 0, 1}, bytes));
      EXPECT_EQ(kept, transport::Credit::kBytes / transport::Credit::cost_of(bytes)) << bytes;
    }
  }
}

TEST(HostilePeer, HasNoCreditForMemoryThatIsStillBeingTakenIn) {
  struct Slow final : Message {
    using Message::Message;
    void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // longer than a round
      Message::consume(offset, from, size);
    }
  };
  constexpr std::uint32_t kMessages = 10;
  Pair pair(false, 1, 2'000'000);
  std::vector<std::unique_ptr<Slow>> receives;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    receives.push_back(std::make_unique<Slow>(transport::Tag{1, i, 1}, 1'000'000));
    pair.say(frame(transport::FrameType::eager, *receives.back()), std::vector<std::byte>(1'000'000));
  }
  pair.run();
  for (auto& receive : receives) pair.links[0]->post_receive(*receive);
  while (pair.links[0]->has_pulls()) {
    ASSERT_TRUE(pair.links[0]->progress(false).ok());
    const auto done = std::ranges::count(receives, true, &Message::done);
    const std::uint64_t taken_in = static_cast<std::uint64_t>(done) * transport::Credit::cost_of(1'000'000);
    const bool has_credit = taken_in >= transport::Credit::kBatch;
    EXPECT_EQ(pair.state->bytes[0].size(), has_credit ? sizeof(transport::FrameHeader) : 0) << done;
  }
}

TEST(HostilePeer, OffersAreBounded) {
  Pair pair(false, 1, 2'000'000);
  const transport::FrameHeader offer = frame(transport::FrameType::rts, Message({1, 0, 1}, 10'000'000));
  for (int i = 0; i < 10'000'000 && pair.links[0]->status().ok(); ++i) {
    pair.say(offer);
    if (i % 1000 == 0) pair.links[0]->progress(true).ok();
  }
  expect_refused(pair, "too many offers");
  EXPECT_EQ(pair.heard[0].unexpected, 1 << 20);
}

TEST(HostilePeer, ThatDoesNotReadIsNotToldWithoutEnd) {
  Pair deaf(false, 1, 1'000'000, 100);  // sends pings and never reads the answers
  for (int i = 0; i < 10'000; ++i) {
    deaf.links[0]->send_control(3, {});
    deaf.links[0]->progress(true).ok();
  }
  EXPECT_NE(deaf.links[0]->status().message().find("does not read"), std::string::npos);
}

}  // namespace
}  // namespace kolo::test
