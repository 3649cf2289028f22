// Link over a pipe in memory, in random pieces, with and without pulling.
#include "transport/link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>

#include "unit/engine/link_pair.hpp"

namespace kolo::test {
namespace {

struct LinkOver : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PullingOrNot, LinkOver, ::testing::Bool());

TEST_P(LinkOver, MessagesOfAllKindsMeetInAnyOrder) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Pair pair(GetParam(), seed, seed % 3 == 0 ? 100 : 100'000, seed % 2 ? 5000 : 1 << 20,
              seed % 5 == 0 ? 1000 + seed * 600 : 1 << 30);
    const std::uint64_t sizes[] = {0, 1, 3, 8, 100, 8191, 8192, 8193, 20'000, 65'536, 300'001, 1'048'577};
    std::vector<std::unique_ptr<Message>> sends;
    std::vector<std::unique_ptr<Message>> receives;
    std::vector<std::pair<bool, std::size_t>> order;
    for (std::uint32_t i = 0; i < 24; ++i) {
      const std::uint64_t size = sizes[random() % (seed % 3 == 0 ? 10 : 12)];
      sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, size));
      fill(*sends.back(), i);
      sends.back()->acknowledged = random() % 3 == 0;
      receives.push_back(std::make_unique<Message>(transport::Tag{1, i, 5}, size, random() % 2 == 0));
      order.emplace_back(true, i);
      order.emplace_back(false, i);
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& [is_send, i] : order) {
      if (is_send) {
        pair.links[0]->post_send(*sends[i]);
      } else {
        pair.links[1]->post_receive(*receives[i]);
      }
      pair.run(static_cast<int>(random() % 4));
    }
    pair.run();
    for (std::size_t i = 0; i < sends.size(); ++i) {
      ASSERT_TRUE(sends[i]->done && receives[i]->done) << "seed " << seed << " message " << i;
      ASSERT_EQ(sends[i]->memory, receives[i]->memory) << "seed " << seed << " message " << i;
    }
    for (auto& link : pair.links) {
      EXPECT_TRUE(link->status().ok()) << link->status().message();
      EXPECT_FALSE(link->is_waiting());
      EXPECT_FALSE(link->wants_write());
    }
  }
}

// Pulling a large amount at once would leave the peer without an answer for as long as that takes.
TEST(LinkThatPulls, AnswersBetweenOneTurnOfPullingAndTheNext) {
  for (const bool receives_first : {true, false}) {
    constexpr std::uint32_t kMessages = 40;
    Pair pair(true, 1, 1 << 20);
    std::vector<std::unique_ptr<Message>> sends, receives;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      sends.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, 1 << 20));
      fill(*sends.back(), i);
      receives.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, 1 << 20));
    }
    const auto post = [&] {
      for (auto& receive : receives) pair.links[1]->post_receive(*receive);
    };
    const auto count = [](const auto& messages) {
      return std::ranges::count(messages, true, &Message::done);
    };
    if (receives_first) post();
    for (auto& send : sends) pair.links[0]->post_send(*send);
    ASSERT_TRUE(pair.links[0]->progress(true).ok());
    ASSERT_TRUE(pair.links[1]->progress(true).ok());
    if (!receives_first) post();
    EXPECT_LT(count(receives), kMessages / 2);
    EXPECT_TRUE(pair.links[1]->has_pulls() && pair.links[1]->is_waiting());
    if (!receives_first) {
      ASSERT_TRUE(pair.links[1]->progress(true).ok());
    }
    ASSERT_TRUE(pair.links[0]->progress(true).ok());
    EXPECT_GT(count(sends), 0);
    EXPECT_LT(count(sends), kMessages);
    pair.run();
    EXPECT_EQ(count(sends), kMessages);
    for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(sends[i]->memory, receives[i]->memory);
    EXPECT_FALSE(pair.links[1]->has_pulls() || pair.links[1]->is_waiting());
  }
}

/// A message whose bytes exist only when it is about to be sent.
struct LateMessage final : Message {
  using Message::Message;
  void leaving() override {
    ++asked;
    data = memory.data();
  }
  int asked = 0;
};

// The pull budget also applies within one large message.
TEST(LinkThatPulls, TakesOneLongMessageInTurns) {
  for (const bool stores : {true, false}) {
    Pair pair(true, 1, 1 << 20);
    Message send({1, 0, 1}, 50 << 20), receive({1, 0, 1}, 50 << 20), next({1, 1, 1}, 9000);
    Message next_receive({1, 1, 1}, 9000);
    fill(send, 1);
    fill(next, 2);
    receive.stores = stores;
    pair.links[1]->post_receive(receive);
    pair.links[1]->post_receive(next_receive);
    pair.links[0]->post_send(send);
    pair.links[0]->post_send(next);
    ASSERT_TRUE(pair.links[0]->progress(true).ok());
    ASSERT_TRUE(pair.links[1]->progress(true).ok());
    EXPECT_TRUE(pair.links[1]->has_pulls());
    EXPECT_GT(receive.consumed, 0u);
    EXPECT_LT(receive.consumed, receive.bytes / 2);
    pair.run();
    EXPECT_TRUE(send.done && receive.done && next.done && next_receive.done);
    EXPECT_EQ(send.memory, receive.memory);
    EXPECT_EQ(next.memory, next_receive.memory);
  }
}

// A peer that fails revokes its offers, sends the reason, and its caller frees the memory. All this may
// happen between two steps of the pulling rank, which must receive the reason and not take the peer for dead.
TEST(LinkThatPulls, MemoryThatWasTakenBackIsNoFailure) {
  Pair pair(true, 1, 1 << 20);
  pair.state->frees = true;
  Message send({1, 0, 1}, 20'000), receive({1, 0, 1}, 20'000);
  fill(send, 1);
  pair.links[1]->post_receive(receive);
  pair.links[0]->post_send(send);
  pair.links[0]->send_control(7, {});
  pair.run();
  EXPECT_TRUE(pair.links[1]->status().ok()) << pair.links[1]->status().message();
  EXPECT_EQ(pair.heard[1].controls.size(), 1u);
  EXPECT_FALSE(receive.done || send.done);
}

// Memory runs out while a message finishes: the bytes sent so far are counted, so that the peer can parse the
// bytes that follow.
TEST(Link, WhatAPeerSaidBeforeItClosedIsReadHoweverWritingFails) {
  for (const bool while_it_reads : {false, true}) {
    Pair pair(false, 1, 1 << 20);
    Message message({1, 0, 1}, 100), receive({1, 0, 1}, 100), send({1, 1, 1}, 100);
    fill(send, 2);
    pair.state->is_closed[1] = true;
    const transport::FrameHeader words = [] {
      transport::FrameHeader header;
      header.type = transport::FrameType::control;
      header.tag.message = 7;
      return header;
    }();
    const auto* raw = reinterpret_cast<const std::byte*>(&words);
    pair.state->last_words[1].assign(raw, raw + sizeof words);
    pair.links[0]->post_receive(receive);
    if (while_it_reads) {  // what is read is answered, and then the answer is what cannot be written
      transport::FrameHeader header = frame(transport::FrameType::eager, message);
      header.acknowledged = true;
      pair.say(header, std::vector<std::byte>(100));
    } else {
      pair.links[0]->post_send(send);
    }
    EXPECT_FALSE(pair.links[0]->progress(true).ok());
    EXPECT_EQ(pair.links[0]->status().message(), "the pipe is closed");
    ASSERT_EQ(pair.heard[0].controls.size(), 1u) << while_it_reads;
    EXPECT_EQ(pair.heard[0].controls[0].first, 7u);
  }
}

TEST(Link, AFailureWhileMessagesFinishDoesNotCutTheStream) {
  struct Failing final : Message {
    using Message::Message;
    void finished() override { throw std::bad_alloc(); }
  };
  for (const std::uint64_t size : {100u, 300'000u}) {
    Pair pair(false, 1, 1 << 20, std::size_t{1} << 20);
    Failing first({1, 0, 1}, size);
    Message second({1, 1, 1}, 300'000), receive({1, 1, 1}, 300'000);
    fill(first, 1);
    fill(second, 2);
    pair.links[1]->post_receive(receive);
    pair.links[0]->post_send(first);
    pair.links[0]->post_send(second);
    EXPECT_THROW(pair.links[0]->progress(false).ok(), std::bad_alloc);
    pair.links[0]->abandon();
    pair.links[0]->send_control(7, {});
    pair.run();
    EXPECT_TRUE(pair.links[1]->status().ok()) << pair.links[1]->status().message();
    EXPECT_EQ(pair.heard[1].controls.size(), 1u);
  }
}

// Nobody has memory for what is half sent: the link ends, as the peer would not understand what comes next.
TEST(Link, WithoutMemoryForTheRestOfAMessageItEnds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a program that asks for so much";
#endif
  Pair pair(false, 1, 1000, 2000);
  Message send({1, 0, 1}, 100'000), behind({1, 1, 1}, 100);
  fill(send, 1);
  fill(behind, 2);
  send.bytes = std::uint64_t{1} << 46;
  pair.links[0]->post_send(send);
  ASSERT_TRUE(pair.links[0]->progress(false).ok());
  pair.say(frame(transport::FrameType::cts, send));
  ASSERT_TRUE(pair.links[0]->progress(true).ok());
  pair.links[0]->post_send(behind);
  pair.links[0]->abandon();
  EXPECT_NE(pair.links[0]->status().message().find("no memory"), std::string::npos);
  EXPECT_FALSE(pair.links[0]->wants_write() || pair.links[0]->is_waiting());
  pair.links[0]->send_control(7, {});
  EXPECT_FALSE(pair.links[0]->progress(true).ok());
  EXPECT_FALSE(send.done || behind.done);
}

TEST_P(LinkOver, AMessageIsAskedForItsBytesWhenTheyLeave) {
  for (const std::uint64_t size : {100u, 300'000u}) {
    Pair pair(GetParam(), 1, 10'000, 20'000);
    std::vector<std::unique_ptr<LateMessage>> sends;
    std::vector<std::unique_ptr<Message>> receives;
    for (std::uint32_t i = 0; i < 20; ++i) {
      sends.push_back(std::make_unique<LateMessage>(transport::Tag{1, i, 1}, size));
      fill(*sends.back(), i);
      sends.back()->data = nullptr;
      receives.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, size));
      pair.links[1]->post_receive(*receives.back());
    }
    pair.run();
    for (auto& send : sends) pair.links[0]->post_send(*send);
    ASSERT_TRUE(pair.links[0]->progress(true).ok());
    // Through the stream, those far behind are not asked yet.
    if (!GetParam() && size > 8192) {
      EXPECT_EQ(sends.back()->asked, 0);
    }
    pair.run();
    for (std::size_t i = 0; i < sends.size(); ++i) {
      EXPECT_GE(sends[i]->asked, 1);
      ASSERT_EQ(sends[i]->memory, receives[i]->memory);
    }
  }
}

TEST(Link, AMessageThatIsOnlyStoredIsReadIntoItsPlace) {
  for (const std::uint64_t shift : {0, 3, 8}) {
    Pair pair(false, 1, 1 << 20);
    Message first(transport::Tag{1, 0, 1}, shift), long_one(transport::Tag{1, 1, 1}, 1 << 20);
    Message short_receive(transport::Tag{1, 0, 1}, shift, true),
        receive(transport::Tag{1, 1, 1}, 1 << 20, true);
    fill(first, 1);
    fill(long_one, 2);
    for (Message* message : {&short_receive, &receive}) pair.links[1]->post_receive(*message);
    for (Message* message : {&first, &long_one}) pair.links[0]->post_send(*message);
    pair.run();
    ASSERT_TRUE(receive.done);
    EXPECT_EQ(long_one.memory, receive.memory);
    // What comes behind its header in one read is copied from the input buffer.
    EXPECT_LE(receive.consumed, 16u << 10) << shift;
  }
}

TEST(Link, WritesItsTurnAndThenReads) {
  constexpr std::uint64_t kTurn = 30'000;
  Pair pair(false, 1, std::size_t{1} << 30, std::size_t{1} << 30, kTurn);
  std::vector<std::unique_ptr<Message>> messages;
  for (std::uint32_t i = 0; i < 8; ++i) {
    messages.push_back(std::make_unique<Message>(transport::Tag{1, i / 2, 1}, 100'000));
    fill(*messages.back(), i);
    if (i % 2 == 0) {
      pair.links[0]->post_send(*messages.back());
    } else {
      pair.links[1]->post_receive(*messages.back());
    }
  }
  auto& on_the_way = pair.state->bytes[0];
  bool done = false;
  for (int round = 0; !done; ++round) {
    ASSERT_LT(round, 1000);
    ASSERT_TRUE(pair.links[0]->progress(round > 0).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.links[0]->progress(false).ok());
    ASSERT_LE(on_the_way.size(), kTurn + sizeof(transport::FrameHeader));
    ASSERT_TRUE(pair.links[1]->progress(true).ok());
    done = std::all_of(messages.begin(), messages.end(), [](const auto& one) { return one->done; });
  }
  for (std::size_t i = 0; i < messages.size(); i += 2)
    EXPECT_EQ(messages[i]->memory, messages[i + 1]->memory);
}

/// Over what both ends share caches: what has just come and is asked for, and what has lain in memory, in
/// turn.
TEST(Link, WithinAHostWhatHasJustComeAndWhatWaitsGoInTurn) {
  for (const bool shares_caches : {false, true}) {
    constexpr std::uint64_t kBytes = 600'000;
    constexpr std::uint32_t kCold = 8;
    Pair pair(false, shares_caches ? 2 : 1, std::size_t{1} << 30, std::size_t{1} << 30, kBytes / 2);
    std::vector<std::unique_ptr<Message>> sends;
    std::vector<std::unique_ptr<Message>> receives;
    const auto post = [&](bool is_warm) {
      const transport::Tag tag{1, static_cast<std::uint32_t>(sends.size()), 1};
      sends.push_back(std::make_unique<Message>(tag, kBytes));
      receives.push_back(std::make_unique<Message>(tag, kBytes));
      fill(*sends.back(), tag.message);
      sends.back()->is_warm = is_warm;
      pair.links[1]->post_receive(*receives.back());
      pair.links[0]->post_send(*sends.back());
    };
    const auto run_until = [&](const Message& receive) {
      for (int i = 0; !receive.done; ++i) {
        ASSERT_LT(i, 1000);
        for (const int end : {1, 0}) ASSERT_TRUE(pair.links[end]->progress(true).ok());
      }
    };
    const auto come = [&](std::uint32_t begin, std::uint32_t end) {
      return std::count_if(receives.begin() + begin, receives.begin() + end,
                           [](const auto& receive) { return receive->done; });
    };
    for (std::uint32_t i = 0; i < kCold; ++i) post(false);
    run_until(*receives[0]);
    EXPECT_EQ(come(0, kCold), 1);
    for (int i = 0; i < 3; ++i) post(true);
    run_until(*receives[kCold + 2]);
    if (shares_caches) {
      EXPECT_GE(come(0, kCold), 4) << "those that waited go on waiting";
      EXPECT_LE(come(0, kCold), 5);
    } else {
      EXPECT_EQ(come(0, kCold), kCold);
    }
    pair.run();
    for (std::size_t i = 0; i < sends.size(); ++i) ASSERT_EQ(sends[i]->memory, receives[i]->memory);
    for (auto& link : pair.links) EXPECT_FALSE(link->is_waiting());
  }
}

TEST_P(LinkOver, AnUrgentControlMessageOvertakesAllButTheMessageThatHasBegun) {
  Pair pair(GetParam(), 1, 100'000, 10'000);
  std::vector<std::unique_ptr<Message>> messages;
  for (std::uint32_t i = 0; i < 20; ++i) {
    messages.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, transport::kShortMessageBytes));
    fill(*messages.back(), i);
    pair.links[0]->post_send(*messages.back());
  }
  ASSERT_TRUE(pair.links[0]->progress(false).ok());
  const auto begun = 1 + std::ranges::count(messages, true, &Message::done);
  pair.links[0]->send_control(1, {});
  pair.links[0]->send_control(2, {}, true);
  while (pair.heard[1].controls.empty()) pair.run(1);
  EXPECT_EQ(pair.heard[1].controls[0].first, 2u);
  EXPECT_LE(pair.heard[1].unexpected, begun);
  pair.run();
  ASSERT_EQ(pair.heard[1].controls.size(), 2u);
  EXPECT_EQ(pair.heard[1].unexpected, 20);
}

TEST_P(LinkOver, AnAcknowledgedMessageFinishesOnlyWhenItIsMet) {
  for (const std::uint64_t size : {100u, 20'000u, 100'000u}) {
    Pair pair(GetParam(), 1, 1000);
    Message send({1, 0, 1}, size);
    Message receive({1, 0, 1}, size);
    fill(send, 3);
    send.acknowledged = true;
    pair.links[0]->post_send(send);
    pair.run();
    EXPECT_FALSE(send.done);
    EXPECT_TRUE(pair.links[0]->is_waiting());
    pair.links[1]->post_receive(receive);
    pair.run();
    EXPECT_TRUE(send.done && receive.done);
  }
}

TEST_P(LinkOver, AMismatchIsToldAndDoesNotSpoilWhatComesBehind) {
  for (const std::uint64_t size : {100u, 20'000u, 100'000u}) {
    for (const bool receive_first : {true, false}) {
      Pair pair(GetParam(), 1, 3000);
      Message send({1, 0, 1}, size);
      Message receive({1, 0, 1}, size);
      fill(send, 3);
      send.call.reduction = 9;
      if (receive_first) {
        pair.links[1]->post_receive(receive);
        pair.run();
      }
      pair.links[0]->post_send(send);
      if (!receive_first) {
        pair.run();
        pair.links[1]->post_receive(receive);
      }
      pair.links[0]->send_control(42, {});
      pair.run();
      EXPECT_EQ(pair.heard[1].mismatches, 1);
      EXPECT_FALSE(receive.done);
      EXPECT_TRUE(pair.links[1]->status().ok()) << pair.links[1]->status().message();
      ASSERT_EQ(pair.heard[1].controls.size(), 1u) << size << receive_first;
      EXPECT_EQ(pair.heard[1].controls[0].first, 42u);
    }
  }
}

// Either side gives up in the middle of frames in both directions. From then on its requests' memory is gone
// (the address sanitizer watches), and control messages still arrive.
TEST_P(LinkOver, AfterAbandonNothingTouchesTheMemoryAndControlsStillArrive) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Pair pair(GetParam(), seed, 20'000, 30'000);
    std::vector<std::unique_ptr<Message>> own[2];
    for (const int end : {0, 1}) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint64_t size = i % 2 == 0 ? 100'001 : i == 1 ? 5000 : 40'000;
        auto send = std::make_unique<Message>(transport::Tag{1, i, 1}, size);
        fill(*send, i);
        auto receive = std::make_unique<Message>(transport::Tag{1, i, 1}, size, i % 4 == 0);
        pair.links[end]->post_send(*send);
        pair.links[end]->post_receive(*receive);
        own[end].push_back(std::move(send));
        own[end].push_back(std::move(receive));
      }
    }
    pair.run(static_cast<int>(seed % 12));
    const int first = seed % 2;
    for (const int end : {first, 1 - first}) {
      pair.links[end]->abandon();
      own[end].clear();
      EXPECT_FALSE(pair.links[end]->is_waiting());
      pair.links[end]->send_control(7, std::as_bytes(std::span("bye", 3)));
      pair.run(static_cast<int>(seed % 5));
    }
    pair.run();
    for (const int end : {0, 1}) {
      EXPECT_TRUE(pair.links[end]->status().ok()) << pair.links[end]->status().message();
      ASSERT_EQ(pair.heard[end].controls.size(), 1u) << "seed " << seed << " end " << end;
      EXPECT_EQ(pair.heard[end].controls[0].second.size(), 3u);
    }
  }
}

}  // namespace
}  // namespace kolo::test
