// Attacks of a hostile peer on a Link.
#include <gtest/gtest.h>

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

TEST(HostilePeer, WhatIsKeptForItIsBounded) {
  const Message message({1, 0, 1}, 8192);
  const std::vector<std::byte> payload(8192);
  Pair pair(false, 1, 1'000'000);
  for (int i = 0; i < 40'000 && pair.links[0]->status().ok(); ++i) {
    pair.say(frame(transport::FrameType::eager, message), payload);
    pair.links[0]->progress(true).ok();
  }
  EXPECT_NE(pair.links[0]->status().message().find("no receive"), std::string::npos);

  // The bound also applies to large unexpected messages.
  Pair early(false, 1, 1'000'000);
  const Message data({1, 0, 1}, 1'000'000);
  const std::vector<std::byte> bytes(data.bytes);
  for (int i = 0; i < 300 && early.links[0]->status().ok(); ++i) {
    early.say(frame(transport::FrameType::eager, data), bytes);
    early.links[0]->progress(true).ok();
  }
  expect_refused(early, "no receive");

  Pair deaf(false, 1, 1'000'000, 100);  // sends pings and never reads the answers
  for (int i = 0; i < 10'000; ++i) {
    deaf.links[0]->send_control(3, {});
    deaf.links[0]->progress(true).ok();
  }
  EXPECT_NE(deaf.links[0]->status().message().find("does not read"), std::string::npos);
}

}  // namespace
}  // namespace kolo::test
