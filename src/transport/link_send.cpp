// What a Link writes: frames in the order in which they leave.
#include <algorithm>
#include <utility>

#include "transport/link.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::transport {
namespace {

constexpr std::uint64_t kWriteBytes = 512 * 1024;  // queued ahead of what is already written
constexpr std::size_t kWriteParts = 16;            // headers and payloads of one write
constexpr std::size_t kMostControls = 4096;        // that the peer has not read

/// Bytes of a frame in the stream.
std::uint64_t length_of(const FrameHeader& header) {
  const bool has_payload = header.type == FrameType::message || header.type == FrameType::data ||
                           header.type == FrameType::control;
  return sizeof(FrameHeader) + (has_payload ? header.bytes : 0);
}

}  // namespace

FrameHeader Link::header_for(FrameType type, const MessageRequest& request) {
  FrameHeader header;
  header.type = type;
  header.acknowledged = request.acknowledged;
  header.tag = request.tag;
  header.bytes = request.bytes;
  header.segments = request.segments;
  header.signature = *request.signature;
  return header;
}

void Link::enqueue(OutFrame frame) {
  if (out_head_ == out_.size()) {
    out_.clear();
    out_head_ = 0;
  } else if (out_head_ > 64 && out_head_ * 2 > out_.size()) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_head_));
    out_head_ = 0;
  }
  out_.push_back(std::move(frame));
}

void Link::reply(FrameType type, const Tag& tag) {
  OutFrame frame;
  frame.header.type = type;
  frame.header.tag = tag;
  enqueue(std::move(frame));
}

void Link::send_control(std::uint32_t kind, std::span<const std::byte> payload) {
  if (!status_.ok()) return;
  if (++controls_queued_ > kMostControls) {
    fail(Status(Code::system, "it does not read what it is told"));
    return;
  }
  OutFrame frame;
  frame.header.type = FrameType::control;
  frame.header.tag.message = kind;
  frame.header.bytes = payload.size();
  frame.owned.assign(payload.begin(), payload.end());
  enqueue(std::move(frame));
}

void Link::post_send(MessageRequest& request) {
  if (abandoned_) return;
  if (!status_.ok()) {
    sends_.add(request.tag, {&request, false});  // it never matches: is_waiting() reports it
    return;
  }
  if (request.bytes <= kShortMessageBytes) {
    OutFrame frame;
    frame.header = header_for(FrameType::message, request);
    frame.request = &request;
    enqueue(std::move(frame));
    return;
  }
  if (request.bytes <= eager_limit()) return send_data(request);
  OutFrame frame;
  frame.header = header_for(FrameType::rts, request);
  frame.header.range.region = FrameHeader::kNoRange;
  if (endpoint_->can_pull()) {
    request.leaving();
    if (const auto range = endpoint_->expose(request.data, request.bytes)) frame.header.range = *range;
  }
  sends_.add(request.tag, {&request, true});
  enqueue(std::move(frame));
}

void Link::send_rts_instead(OutFrame& message) {
  message.header.type = FrameType::rts;
  message.header.range.region = FrameHeader::kNoRange;
  message.payload = nullptr;
  MessageRequest& request = *std::exchange(message.request, nullptr);
  sends_.add(request.tag, {&request, true});
}

void Link::send_data(MessageRequest& request) {
  if (!endpoint_->shares_caches()) return enqueue_data(request, false);
  (request.is_warm ? warm_ : cold_).push_back(&request);
}

/// Queues as much as one write takes, alternately warm and cold messages. If a rank sent all warm messages
/// first, it would get only warm ones back, since its own cold ones wait. Then one rank only sends and the
/// other only sums, and both find their memory cold.
void Link::enqueue_waiting() {
  std::size_t queued = out_.size() - out_head_;
  std::uint64_t bytes = 0;
  if (has_waiting() && 2 * queued < kWriteParts) {
    for (std::size_t i = out_head_; i < out_.size(); ++i)
      bytes += length_of(out_[i].header) - out_[i].written;
  }
  for (; has_waiting() && bytes < kWriteBytes && 2 * queued < kWriteParts; ++queued) {
    auto& queue = warm_.empty() || (was_warm_ && !cold_.empty()) ? cold_ : warm_;
    was_warm_ = &queue == &warm_;
    bytes += queue.front()->bytes;
    enqueue_data(*queue.front(), false);
    queue.pop_front();
  }
}

/// `pause_eager` and `resume_eager` go ahead of this rank's own messages. Those may be hundreds of MiB, and
/// as much would come from the peer meanwhile. They go behind the first frame, which may be partly written,
/// and behind earlier `pause_eager` and `resume_eager` frames.
void Link::enqueue_pause() {
  if (eager_paused_ == pause_sent_) return;
  pause_sent_ = eager_paused_;
  auto at = std::min(out_head_ + 1, out_.size());
  const auto is_word = [](FrameType type) {
    return type == FrameType::pause_eager || type == FrameType::resume_eager;
  };
  while (at < out_.size() && is_word(out_[at].header.type)) ++at;
  OutFrame frame;
  frame.header.type = eager_paused_ ? FrameType::pause_eager : FrameType::resume_eager;
  out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(at), std::move(frame));
}

void Link::enqueue_data(MessageRequest& request, bool has_cts) {
  OutFrame frame;
  frame.has_cts = has_cts;
  frame.header = header_for(FrameType::data, request);
  frame.request = &request;
  enqueue(std::move(frame));
}

bool Link::flush() {
  bool moved = false;
  while (wants_write() && write_budget_left_ > 0) {
    enqueue_pause();
    enqueue_waiting();
    iovec parts[kWriteParts];
    std::size_t used = 0;
    std::uint64_t offered = 0;
    std::uint64_t turn_left = write_budget_left_;
    const std::uint64_t most = std::min(write_budget_left_, kWriteBytes);
    for (std::size_t i = out_head_; i < out_.size() && used + 2 <= kWriteParts && offered < most; ++i) {
      OutFrame& frame = out_[i];
      const bool may_wait = frame.request != nullptr && frame.header.bytes > 0 && !frame.has_cts;
      if (paused_by_peer_ && may_wait && frame.written == 0) send_rts_instead(frame);
      if (frame.request != nullptr && frame.written == 0) {
        frame.request->leaving();
        frame.payload = frame.request->data;
      }
      std::uint64_t skip = frame.written;
      if (skip < sizeof(FrameHeader)) {
        parts[used++] = {reinterpret_cast<std::byte*>(&frame.header) + skip, sizeof(FrameHeader) - skip};
        offered += sizeof(FrameHeader) - skip;
        skip = 0;
      } else {
        skip -= sizeof(FrameHeader);
      }
      if (sizeof(FrameHeader) + skip == length_of(frame.header)) continue;
      const std::byte* payload = frame.owned.empty() ? frame.payload : frame.owned.data();
      const std::uint64_t bytes = std::min(frame.header.bytes - skip, turn_left);
      parts[used++] = {const_cast<std::byte*>(payload) + skip, bytes};
      offered += bytes;
      turn_left -= bytes;
    }
    auto wrote = endpoint_->write({parts, used});
    if (!wrote.ok()) {
      fail(wrote.status());
      if (is_memory_fault(wrote.status()))
        out_.clear(), out_head_ = 0;  // abandon() must not read that memory
      return moved;
    }
    std::uint64_t left = *wrote;
    MessageRequest* gone[kWriteParts];
    std::size_t gone_count = 0;
    moved = moved || left > 0;
    const bool full = left < offered;
    while (left > 0) {
      OutFrame& frame = out_[out_head_];
      const std::uint64_t total = length_of(frame.header);
      const std::uint64_t step = std::min(left, total - frame.written);
      // Headers do not count: the turn should end where messages end. A short rest would hold up a whole
      // message.
      const std::uint64_t begin = std::max(frame.written, std::uint64_t{sizeof(FrameHeader)});
      frame.written += step;
      write_budget_left_ -= std::max(frame.written, begin) - begin;
      if (frame.header.type == FrameType::data) payload_moved_ += step;
      left -= step;
      if (frame.written < total) break;
      frame.owned = {};
      if (frame.header.type == FrameType::control) --controls_queued_;
      ++out_head_;
      if (frame.request != nullptr) gone[gone_count++] = frame.request;
    }
    // First book all that was written, then call anything that can fail: after a failure the peer must still
    // understand the stream.
    for (MessageRequest* request : std::span(gone, gone_count)) {
      if (request->acknowledged) {
        // Only now: an earlier `ack` would free memory that is still being read.
        sends_.add(request->tag, {request, false});
      } else {
        request->finished();  // may post more
      }
    }
    if (full) break;
  }
  return moved;
}

}  // namespace kolo::transport
