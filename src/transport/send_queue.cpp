#include "transport/send_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace kolo::transport {
namespace {

constexpr std::uint64_t kWriteBytes = 512 * 1024;  // of one write, and queued ahead of the messages that wait

bool is_long(const FrameHeader& header) {
  return header.type == FrameType::eager && header.bytes > kShortMessageBytes;
}

/// Bytes of a frame in the stream.
std::uint64_t length_of(const FrameHeader& header) {
  const bool has_payload = header.type == FrameType::eager || header.type == FrameType::control;
  return sizeof(FrameHeader) + (has_payload ? header.bytes : 0);
}

bool is_urgent(const SendQueue::Frame& frame) {
  switch (frame.header.type) {
    case FrameType::cts:
    case FrameType::ack:
    case FrameType::credit:
      return true;
    case FrameType::control:
      return frame.is_urgent;
    case FrameType::eager:
    case FrameType::rts:
      return false;
  }
  return false;
}

void keep_controls(RingQueue<SendQueue::Frame>& queue) {
  std::size_t kept = 0;
  for (SendQueue::Frame& frame : queue) {
    if (frame.header.type != FrameType::control) continue;
    if (&queue[kept] != &frame) queue[kept] = std::move(frame);
    ++kept;
  }
  while (queue.size() > kept) queue.erase(queue.size() - 1);
}

}  // namespace

void SendQueue::push(Frame frame) {
  if (frame.header.type == FrameType::control) ++controls_;
  if (is_urgent(frame)) return urgent_.push_back(std::move(frame));
  if (!in_host_ || !is_long(frame.header) || frame.may_leave) return in_order_.push_back(std::move(frame));
  auto& waiting = frame.request->is_warm ? warm_ : cold_;
  waiting.push_back(std::move(frame));
}

bool SendQueue::has_messages() const {
  const auto is_one = [](const Frame& frame) { return frame.request != nullptr; };
  return has_waiting() || (begun_ && is_one(*begun_)) || std::ranges::any_of(in_order_, is_one);
}

/// In the order in which they leave.
SendQueue::Frame& SendQueue::at(std::size_t place) {
  if (begun_ && place-- == 0) return *begun_;
  return place < urgent_.size() ? urgent_[place] : in_order_[place - urgent_.size()];
}

bool SendQueue::has_room(const Write& write) const {
  return write.count + 2 <= kMostParts && write.bytes < std::min(turn_left_, kWriteBytes);
}

void SendQueue::add_parts(Write& write, Frame& frame, std::uint64_t& turn_left) {
  const auto add = [&](const void* from, std::uint64_t bytes) {
    write.parts[write.count++] = {const_cast<void*>(from), bytes};
    write.bytes += bytes;
  };
  std::uint64_t skip = frame.written;
  if (skip < sizeof(FrameHeader)) {
    add(reinterpret_cast<const std::byte*>(&frame.header) + skip, sizeof(FrameHeader) - skip);
    skip = 0;
  } else {
    skip -= sizeof(FrameHeader);
  }
  const std::uint64_t left = length_of(frame.header) - sizeof(FrameHeader) - skip;
  if (left == 0) return;
  const std::byte* payload = frame.owned.empty() ? frame.payload : frame.owned.data();
  const std::uint64_t bytes = std::min(left, turn_left);
  add(payload + skip, bytes);
  turn_left -= bytes;
}

/// Queues as much as one write takes, alternately warm and cold messages. If a rank sent all warm messages
/// first, it would get only warm ones back, since its own cold ones wait. Then one rank only sends and the
/// other only sums, and both find their memory cold.
void SendQueue::queue_waiting() {
  if (!has_waiting() || 2 * size() >= kMostParts) return;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < size(); ++i) bytes += length_of(at(i).header) - at(i).written;
  while (has_waiting() && bytes < kWriteBytes && 2 * size() < kMostParts) {
    auto& next = warm_.empty() || (was_warm_ && !cold_.empty()) ? cold_ : warm_;
    was_warm_ = &next == &warm_;
    bytes += next.front().header.bytes;
    in_order_.push_back(std::move(next.front()));
    next.pop_front();
  }
}

void SendQueue::pop() {
  if (begun_) {
    begun_.reset();
  } else if (!urgent_.empty()) {
    urgent_.pop_front();
  } else {
    in_order_.pop_front();
  }
}

std::size_t SendQueue::written(std::uint64_t bytes, std::span<MessageRequest*, kMostParts> gone) {
  std::size_t gone_count = 0;
  while (bytes > 0) {
    Frame& frame = at(0);
    const std::uint64_t total = length_of(frame.header);
    const std::uint64_t step = std::min(bytes, total - frame.written);
    // Headers do not count: the turn should end where messages end. A short rest would hold up a whole
    // message.
    const std::uint64_t begin = std::max(frame.written, std::uint64_t{sizeof(FrameHeader)});
    frame.written += step;
    turn_left_ -= std::max(frame.written, begin) - begin;
    if (is_long(frame.header)) payload_written_ += step;
    bytes -= step;
    if (frame.written < total) {
      if (!begun_) {
        Frame begun = std::move(frame);
        pop();
        begun_ = std::move(begun);
      }
      break;
    }
    if (frame.header.type == FrameType::control) --controls_;
    if (frame.request != nullptr) gone[gone_count++] = frame.request;
    pop();
  }
  return gone_count;
}

bool SendQueue::abandon() {
  warm_.clear();
  cold_.clear();
  keep_controls(urgent_);
  keep_controls(in_order_);
  if (!begun_) return true;
  begun_->request = nullptr;
  const std::byte* payload = std::exchange(begun_->payload, nullptr);
  if (payload == nullptr) return true;
  try {
    begun_->owned.assign(payload, payload + begun_->header.bytes);
  } catch (const std::bad_alloc&) {
    clear();
    return false;
  }
  return true;
}

void SendQueue::clear() {
  begun_.reset();
  for (auto* queue : {&urgent_, &in_order_, &warm_, &cold_}) queue->clear();
  controls_ = 0;
}

}  // namespace kolo::transport
