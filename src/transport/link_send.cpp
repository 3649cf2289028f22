// What a Link sends: messages, offers, answers and control messages.
#include <array>
#include <utility>

#include "transport/link.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::transport {
namespace {

constexpr std::size_t kMostControls = 4096;  // that the peer has not read

}  // namespace

FrameHeader Link::header_for(FrameType type, const MessageRequest& request) {
  FrameHeader header;
  header.type = type;
  header.acknowledged = request.acknowledged;
  header.tag = request.tag;
  header.bytes = request.bytes;
  header.segments = request.segments;
  header.signature = *request.signature;
  if (type == FrameType::rts) header.range.region = FrameHeader::kNoRange;  // unless the endpoint exposes one
  return header;
}

void Link::reply(FrameType type, const Tag& tag, std::uint64_t bytes) {
  SendQueue::Frame frame;
  frame.header.type = type;
  frame.header.tag = tag;
  frame.header.bytes = bytes;
  out_.push(std::move(frame));
}

void Link::send_control(std::uint32_t kind, std::span<const std::byte> payload, bool is_urgent) {
  if (!status_.ok()) return;
  if (out_.controls() == kMostControls) return fail(Status(Code::system, "it does not read what it is told"));
  SendQueue::Frame frame;
  frame.header.type = FrameType::control;
  frame.header.tag.message = kind;
  frame.header.bytes = payload.size();
  frame.owned.assign(payload.begin(), payload.end());
  frame.is_urgent = is_urgent;
  out_.push(std::move(frame));
}

void Link::post_send(MessageRequest& request) {
  if (abandoned_) return;
  if (!status_.ok()) {
    sends_.add(request.tag, {&request, false});  // it never matches: is_waiting() reports it
    return;
  }
  if (request.bytes <= eager_limit()) return send_eager(request, false);
  SendQueue::Frame frame;
  frame.header = header_for(FrameType::rts, request);
  if (endpoint_->can_pull()) {
    request.leaving();
    if (const auto range = endpoint_->expose(request.data, request.bytes)) frame.header.range = *range;
  }
  sends_.add(request.tag, {&request, true});
  out_.push(std::move(frame));
}

void Link::send_eager(MessageRequest& request, bool is_asked_for) {
  SendQueue::Frame frame;
  frame.header = header_for(FrameType::eager, request);
  frame.request = &request;
  frame.may_leave = is_asked_for;
  out_.push(std::move(frame));
}

/// The message is about to leave. Without credit it becomes an offer.
void Link::prepare(SendQueue::Frame& message) {
  MessageRequest& request = *message.request;
  if (!message.may_leave) message.may_leave = credit_.take(Credit::cost_of(message.header.bytes));
  if (!message.may_leave) {
    message.header = header_for(FrameType::rts, request);
    message.request = nullptr;
    sends_.add(request.tag, {&request, true});
    return;
  }
  request.leaving();
  message.payload = request.data;
}

bool Link::flush() {
  bool moved = false;
  while (wants_write() && out_.has_turn()) {
    if (released_ >= Credit::kWorthSending) return_credit();
    const SendQueue::Write next = out_.next([this](SendQueue::Frame& message) { prepare(message); });
    const auto wrote = endpoint_->write(std::span(next.parts).first(next.count));
    if (!wrote.ok()) {
      fail(wrote.status());
      if (is_memory_fault(wrote.status())) out_.clear();  // abandon() must not read that memory
      return moved;
    }
    moved = moved || *wrote > 0;
    // First book all that was written, then call anything that can fail: after a failure the peer must still
    // understand the stream.
    std::array<MessageRequest*, SendQueue::kMostParts> gone;
    const std::size_t gone_count = out_.written(*wrote, gone);
    for (MessageRequest* request : std::span(gone).first(gone_count)) {
      if (request->acknowledged) {
        // Only now: an earlier `ack` would free memory that is still being read.
        sends_.add(request->tag, {request, false});
      } else {
        request->finished();  // may post more
      }
    }
    if (*wrote < next.bytes) break;
  }
  return moved;
}

/// The next progress() meets an error of the stream again, and first reads what the peer has said before.
void Link::write_now() {
  if (!status_.ok()) return;
  out_.begin_turn();
  flush();
  if (!is_memory_fault(status_)) status_ = Status();
}

}  // namespace kolo::transport
