// SendQueue alone: which frames leave in which order, however few bytes each write takes.
#include "transport/send_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "fuzz/link_pipe.hpp"

namespace kolo::test {
namespace {

using transport::FrameHeader;
using transport::FrameType;
using transport::SendQueue;

constexpr std::uint64_t kLong = 100'000;
constexpr std::uint64_t kAnyTurn = 1 << 30;

struct Outbox {
  explicit Outbox(bool in_host = false, std::uint64_t turn = kAnyTurn) : queue(endpoint(in_host, turn)) {}

  static const PipeEnd& endpoint(bool in_host, std::uint64_t turn) {
    static std::unique_ptr<PipeEnd> end;
    const auto state = std::make_shared<PipeState>();
    state->shares_caches = in_host;
    state->turn = turn;
    return *(end = std::make_unique<PipeEnd>(state, 0));
  }

  /// Frames are told apart by their number.
  void push(FrameType type, std::uint32_t number, bool is_urgent = false) {
    SendQueue::Frame frame;
    frame.header.type = type;
    frame.header.tag.message = number;
    frame.is_urgent = is_urgent;
    if (type == FrameType::control) {
      frame.owned.assign(3, static_cast<std::byte>(number));
      frame.header.bytes = frame.owned.size();
    }
    queue.push(std::move(frame));
  }
  void push_message(std::uint32_t number, std::uint64_t bytes, bool is_warm = false,
                    bool is_asked_for = false) {
    messages.push_back(std::make_unique<Message>(transport::Tag{1, number, 1}, bytes));
    Message& message = *messages.back();
    std::ranges::fill(message.memory, static_cast<std::byte>(number));
    message.is_warm = is_warm;
    SendQueue::Frame frame;
    frame.header.type = FrameType::eager;
    frame.header.tag = message.tag;
    frame.header.bytes = bytes;
    frame.request = &message;
    frame.may_leave = is_asked_for;
    queue.push(std::move(frame));
  }
  /// One write, of which the endpoint takes at most `most` bytes; returns how many.
  std::uint64_t write(std::uint64_t most = ~0ull) {
    const SendQueue::Write next = queue.next([&](SendQueue::Frame& frame) {
      ++left;
      frame.payload = static_cast<Message*>(frame.request)->memory.data();
    });
    std::uint64_t offered = 0;
    const std::uint64_t taken = std::min(most, next.bytes);
    for (const iovec& part : std::span(next.parts).first(next.count)) {
      const std::uint64_t size = std::min<std::uint64_t>(part.iov_len, taken - std::min(taken, offered));
      const auto* bytes = static_cast<const std::byte*>(part.iov_base);
      stream.insert(stream.end(), bytes, bytes + size);
      offered += part.iov_len;
    }
    EXPECT_EQ(offered, next.bytes);
    std::array<transport::MessageRequest*, SendQueue::kMostParts> some;
    const std::size_t count = queue.written(taken, some);
    for (std::size_t i = 0; i < count; ++i) gone.push_back(some[i]->tag.message);
    return taken;
  }
  void write_all(std::uint64_t most = ~0ull) {
    while (!queue.empty()) {
      queue.begin_turn();
      ASSERT_GT(write(most), 0u);
    }
  }
  /// The numbers of the frames in the stream. Each must be whole and have its own bytes.
  std::vector<std::uint32_t> come() const {
    std::vector<std::uint32_t> numbers;
    for (std::size_t at = 0; at < stream.size();) {
      FrameHeader header;
      if (stream.size() - at < sizeof header) return ADD_FAILURE() << "half a header", numbers;
      std::memcpy(&header, stream.data() + at, sizeof header);
      at += sizeof header;
      if (header.magic != FrameHeader::kMagic || stream.size() - at < header.bytes)
        return ADD_FAILURE() << "half a frame", numbers;
      const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = begin + static_cast<std::ptrdiff_t>(header.bytes);
      EXPECT_EQ(std::count(begin, end, static_cast<std::byte>(header.tag.message)), end - begin);
      at += header.bytes;
      numbers.push_back(header.tag.message);
    }
    return numbers;
  }

  SendQueue queue;
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<std::byte> stream;
  std::vector<std::uint32_t> gone;
  int left = 0;
};

using Numbers = std::vector<std::uint32_t>;

TEST(SendQueue, FramesLeaveWholeHoweverFewBytesAWriteTakes) {
  for (const std::uint64_t most : {1, 7, 71, 72, 73, 1000, 50'000, 1 << 30}) {
    Outbox out;
    out.push(FrameType::rts, 0);
    out.push_message(1, 0);
    out.push_message(2, 100);
    out.push(FrameType::control, 3);
    out.push_message(4, 20'000);
    out.push_message(5, 3);
    EXPECT_TRUE(out.queue.has_messages());
    out.write_all(most);
    EXPECT_EQ(out.come(), (Numbers{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(out.gone, (Numbers{1, 2, 4, 5}));
    EXPECT_EQ(out.queue.controls(), 0u);
    EXPECT_EQ(out.queue.payload_written(), 20'000 + sizeof(FrameHeader));
    EXPECT_FALSE(out.queue.has_messages());
  }
}

TEST(SendQueue, UrgentFramesLeaveBehindTheFrameThatHasBegun) {
  for (const std::uint64_t begun : {0, 1, 72, 5000}) {
    Outbox out;
    out.push_message(0, kLong);
    out.push_message(1, 10);
    out.push(FrameType::control, 2);
    if (begun > 0) out.write(begun);
    out.push(FrameType::ack, 3);
    out.push(FrameType::control, 4, true);
    out.push(FrameType::cts, 5);
    out.push(FrameType::credit, 6);
    out.write_all(977);
    EXPECT_EQ(out.come(), begun > 0 ? (Numbers{0, 3, 4, 5, 6, 1, 2}) : (Numbers{3, 4, 5, 6, 0, 1, 2}));
  }
}

TEST(SendQueue, AnUrgentFrameThatHasBegunStaysFirst) {
  Outbox out;
  out.push(FrameType::ack, 0);
  out.push(FrameType::control, 1);
  out.write(20);
  out.push(FrameType::cts, 2);
  out.write(60);  // the rest of the first, and a part of the next
  out.push(FrameType::ack, 3);
  out.write_all();
  EXPECT_EQ(out.come(), (Numbers{0, 2, 3, 1}));
}

TEST(SendQueue, WithinAHostWarmAndColdMessagesAlternateBehindAllElse) {
  for (const bool in_host : {false, true}) {
    Outbox out(in_host);
    for (std::uint32_t i = 0; i < 4; ++i) out.push_message(i, 600'000);
    for (std::uint32_t i = 4; i < 6; ++i) out.push_message(i, 600'000, true);
    out.push_message(6, 100);
    out.push_message(7, kLong, false, true);  // asked for
    out.push(FrameType::rts, 8);
    out.write_all();
    EXPECT_EQ(out.come(),
              in_host ? (Numbers{6, 7, 8, 4, 0, 5, 1, 2, 3}) : (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  }
}

TEST(SendQueue, AWriteHasALimitedNumberOfPartsAndBytes) {
  for (const std::uint64_t bytes : {std::uint64_t{10}, std::uint64_t{200'000}}) {
    Outbox out;
    for (std::uint32_t i = 0; i < 40; ++i) out.push_message(i, bytes);
    out.write();
    EXPECT_EQ(out.gone.size(), bytes == 10 ? SendQueue::kMostParts / 2 : 3);
    EXPECT_EQ(out.left, static_cast<int>(out.gone.size()))
        << "those behind are not asked for their bytes yet";
  }
}

TEST(SendQueue, ATurnEndsAfterItsBytes) {
  constexpr std::uint64_t kTurn = 250'000;
  Outbox out(true, kTurn);
  for (std::uint32_t i = 0; i < 5; ++i) out.push_message(i, kLong);
  std::uint64_t sent = 0;
  while (out.queue.has_turn()) sent += out.write();
  EXPECT_EQ(sent, kTurn + 3 * sizeof(FrameHeader)) << "headers do not count";
  out.queue.begin_turn();
  EXPECT_TRUE(out.queue.has_turn());
  out.write_all();
  EXPECT_EQ(out.come(), (Numbers{0, 1, 2, 3, 4}));
}

TEST(SendQueue, AMessageMayBecomeAnOfferWhenItLeaves) {
  Outbox out;
  out.push_message(0, kLong);
  out.push_message(1, 10);
  const auto next = out.queue.next([](SendQueue::Frame& frame) {
    if (frame.header.tag.message == 0) {
      frame.header.type = FrameType::rts;
      frame.request = nullptr;
    } else {
      frame.payload = frame.request->data = static_cast<Message*>(frame.request)->memory.data();
    }
  });
  EXPECT_EQ(next.bytes, 2 * sizeof(FrameHeader) + 10);
  std::array<transport::MessageRequest*, SendQueue::kMostParts> gone;
  EXPECT_EQ(out.queue.written(next.bytes, gone), 1u);
  EXPECT_EQ(gone[0]->tag.message, 1u);
  EXPECT_TRUE(out.queue.empty());
}

TEST(SendQueue, AfterAbandonOnlyControlMessagesAndTheBegunFrameLeave) {
  for (const std::uint64_t begun : {0, 10, 5000}) {
    Outbox out(true);
    out.push_message(0, 9000, false, true);
    out.push(FrameType::control, 1);
    out.push_message(2, 100);
    out.push(FrameType::control, 3);
    out.push_message(4, kLong);
    if (begun > 0) out.write(begun);
    out.push(FrameType::ack, 5);
    out.push(FrameType::control, 6, true);
    ASSERT_TRUE(out.queue.abandon());
    out.messages.clear();
    EXPECT_FALSE(out.queue.has_messages());
    EXPECT_EQ(out.queue.controls(), 3u);
    out.write_all(500);
    EXPECT_EQ(out.come(), begun > 0 ? (Numbers{0, 6, 1, 3}) : (Numbers{6, 1, 3}));
    EXPECT_TRUE(out.gone.empty());
    EXPECT_EQ(out.queue.controls(), 0u);
  }
}

}  // namespace
}  // namespace kolo::test
