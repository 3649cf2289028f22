#include "transport/link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "transport/memory_fault.hpp"

namespace kolo::transport {
namespace {

constexpr std::size_t kInputBytes = 128 * 1024;        // stays in L2 between reading and reducing
constexpr std::uint64_t kShortInputBytes = 16 * 1024;  // some short messages, or the beginning of a long one
constexpr int kReadsPerProgress = 16;
constexpr std::size_t kGranule = 8;  // the largest element

// Limits of what the peer may have this rank keep: messages and offers whose receives are not posted.
constexpr std::size_t kMostUnexpectedBytes = std::size_t{256} << 20;
// Above the first the peer must hold, below the second it may go on. What it sends before `pause_eager`
// reaches it is far less than the rest up to `kMostUnexpectedBytes`.
constexpr std::size_t kUnexpectedHighWater = std::size_t{16} << 20;
constexpr std::size_t kUnexpectedLowWater = std::size_t{4} << 20;

}  // namespace

Link::Link(int peer, std::unique_ptr<Endpoint> endpoint, LinkListener& listener, MemoryPool& memory)
    : peer_(peer), endpoint_(std::move(endpoint)), listener_(listener), memory_(memory), in_(kInputBytes) {}

bool Link::is_waiting() const noexcept {
  const bool is_met = incoming_ != nullptr && incoming_ != &unexpected_sink_;
  return !receives_.empty() || !sends_.empty() || (has_pulls() && !has_buffered()) || is_met ||
         out_.has_messages();
}

bool Link::agrees(const FrameHeader& header, const MessageRequest& request) {
  if (header.signature == *request.signature && header.bytes == request.bytes &&
      header.segments == request.segments) {
    return true;
  }
  listener_.on_mismatch(*this, header.tag, *request.signature, header.signature);
  return false;
}

void Link::post_receive(MessageRequest& request) {
  if (abandoned_) return;
  if (auto waiting = unexpected_.take(request.tag)) {
    unexpected_bytes_ -= waiting->size();
    if (unexpected_bytes_ < kUnexpectedLowWater) eager_paused_ = false;
    if (!agrees(waiting->header, request)) return;
    if (waiting->header.type == FrameType::rts) return answer_rts(waiting->header, request);
    if (request.bytes > kShortMessageBytes)
      return start_or_queue_pull({waiting->header, &request, std::move(waiting->payload)});
    if (waiting->header.acknowledged) reply(FrameType::ack, request.tag);
    if (request.bytes > 0) request.consume(0, waiting->payload.memory.get(), request.bytes);
    memory_.give_back(std::move(waiting->payload));
    return request.finished();
  }
  if (incoming_ == &unexpected_sink_ && unexpected_sink_.header.tag == request.tag)
    return attach_receive(request);
  receives_.add(request.tag, {&request});
}

/// The message is arriving: the rest goes to its receive's memory.
void Link::attach_receive(MessageRequest& request) {
  Payload come = std::move(unexpected_sink_.memory);
  incoming_ = nullptr;
  if (!agrees(unexpected_sink_.header, request)) return;
  // The last bytes may be part of an element: they go back to the input buffer, which is empty at this point.
  const std::uint64_t odd = incoming_done_ % kGranule;
  if (odd > 0) {
    std::memcpy(in_.data(), come.memory.get() + incoming_done_ - odd, odd);
    in_begin_ = 0;
    in_end_ = odd;
    incoming_done_ -= odd;
    incoming_left_ += odd;
  }
  if (incoming_done_ > 0) request.consume(0, come.memory.get(), incoming_done_);
  memory_.give_back(std::move(come));
  incoming_ = &request;
  incoming_acknowledged_ = unexpected_sink_.header.acknowledged != 0;
}

void Link::on_message(const FrameHeader& header, const std::byte* payload) {
  if (const auto posted = receives_.take(header.tag)) {
    MessageRequest& request = *posted->request;
    if (!agrees(header, request)) return;
    if (header.acknowledged) reply(FrameType::ack, header.tag);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(payload) % kGranule == 0;
    alignas(kGranule) std::byte aligned[4096];
    for (std::uint64_t done = 0, size; done < header.bytes; done += size) {
      size = std::min<std::uint64_t>(header.bytes - done, is_aligned ? header.bytes : sizeof aligned);
      if (!is_aligned) std::memcpy(aligned, payload + done, size);
      request.consume(done, is_aligned ? payload : aligned, size);
    }
    request.finished();
    return;
  }
  Payload copy = memory_.take(header.bytes);
  std::copy_n(payload, header.bytes, copy.memory.get());
  keep(header, std::move(copy));
}

bool Link::has_unexpected_room(std::uint64_t bytes) {
  if (unexpected_bytes_ + bytes <= kMostUnexpectedBytes) return true;
  fail(Status(Code::system, fmt::format("it sent {} MiB of messages for which no receive is posted",
                                        unexpected_bytes_ >> 20)));
  return false;
}

void Link::keep(const FrameHeader& header, Payload payload) {
  Unexpected message{header, std::move(payload)};
  if (abandoned_ || !has_unexpected_room(message.size())) return;
  unexpected_bytes_ += message.size();
  unexpected_.add(header.tag, std::move(message));
  if (unexpected_bytes_ > kUnexpectedHighWater) eager_paused_ = true;
  listener_.on_unexpected(*this, header.tag, header.signature);
}

void Link::on_rts(const FrameHeader& header) {
  const Receive* posted = receives_.find(header.tag);
  if (posted == nullptr) return keep(header, {});
  if (posted->offered) return corrupt("two offers of one message");
  MessageRequest& request = *posted->request;
  if (!agrees(header, request)) return;
  receives_.take(header.tag);
  answer_rts(header, request);
}

void Link::on_cts(const FrameHeader& header) {
  if (abandoned_) return;
  const Sent* sent = sends_.find(header.tag);
  if (sent == nullptr || !sent->offered) return corrupt("`cts` for a message that was not offered");
  send_eager(*sends_.take(header.tag)->request, true);
}

void Link::on_ack(const FrameHeader& header) {
  if (abandoned_) return;
  if (const auto sent = sends_.take(header.tag)) {
    sent->request->finished();
  } else {
    corrupt("`ack` for a message that was not sent");
  }
}

void Link::on_data(const FrameHeader& header) {
  if (abandoned_) {
    incoming_left_ = header.bytes;
    return;
  }
  if (header.bytes == 0) return corrupt("no message as data");
  const auto posted = receives_.take(header.tag);
  if (!posted && header.bytes > eager_limit()) return corrupt("data that nobody asked for");
  incoming_left_ = header.bytes;  // from here on, bytes without a place are dropped
  incoming_done_ = 0;
  incoming_acknowledged_ = false;
  if (posted) {
    if (!agrees(header, *posted->request)) return;  // later messages of the peer still count
    incoming_ = posted->request;
    incoming_acknowledged_ = header.acknowledged != 0;
  } else {
    if (!has_unexpected_room(header.bytes)) return;
    unexpected_sink_.header = header;
    unexpected_sink_.memory = memory_.take(header.bytes);
    unexpected_sink_.data = unexpected_sink_.memory.memory.get();
    incoming_ = &unexpected_sink_;
  }
  align_input();
}

void Link::UnexpectedSink::consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) {
  std::memcpy(memory.memory.get() + offset, from, size);
}

void Link::finish_incoming() {
  MessageRequest& request = *std::exchange(incoming_, nullptr);
  if (incoming_acknowledged_) reply(FrameType::ack, request.tag);
  request.finished();
}

/// Reductions, above all the user's own, need aligned operands; short messages of odd sizes shift the stream.
void Link::align_input() {
  if (in_begin_ % kGranule == 0) return;
  std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
  in_end_ -= in_begin_;
  in_begin_ = 0;
}

void Link::corrupt(const std::string& what) {
  fail(Status(Code::system, fmt::format("received nonsense over {}: {}", endpoint_->describe(), what)));
}

void Link::handle(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::rts:
      return on_rts(header);
    case FrameType::cts:
      return on_cts(header);
    case FrameType::ack:
      return on_ack(header);
    case FrameType::data:
      return on_data(header);
    case FrameType::pause_eager:
    case FrameType::resume_eager:
      paused_by_peer_ = header.type == FrameType::pause_eager;
      return;
    case FrameType::message:
    case FrameType::control:
      return;  // handled with their payload by parse()
  }
}

bool Link::parse_payload() {
  if (incoming_left_ == 0) return false;
  const std::uint64_t available = in_end_ - in_begin_;
  std::uint64_t size = std::min(available, incoming_left_);
  if (size < incoming_left_) size -= size % kGranule;
  if (size == 0) return false;
  if (incoming_ != nullptr) incoming_->consume(incoming_done_, in_.data() + in_begin_, size);
  in_begin_ += size;
  incoming_done_ += size;
  payload_read_ += size;
  incoming_left_ -= size;
  if (incoming_left_ == 0 && incoming_ != nullptr) finish_incoming();
  return true;
}

bool Link::parse() {
  bool parsed = false;
  while (status_.ok()) {
    if (incoming_left_ > 0) {
      if (!parse_payload()) break;
      parsed = true;
      continue;
    }
    if (in_end_ - in_begin_ < sizeof(FrameHeader)) break;
    FrameHeader header;
    std::memcpy(&header, in_.data() + in_begin_, sizeof header);
    if (header.magic != FrameHeader::kMagic || header.type < FrameType::message ||
        header.type > FrameType::resume_eager) {
      corrupt("a frame that is none");
      break;
    }
    const bool whole = header.type == FrameType::message || header.type == FrameType::control;
    if (whole) {
      const auto limit = header.type == FrameType::message ? kShortMessageBytes : kMaxControlBytes;
      if (header.bytes > limit) {
        corrupt(fmt::format("a frame of {} bytes", header.bytes));
        break;
      }
      if (in_end_ - in_begin_ < sizeof header + header.bytes) break;
    }
    const std::byte* payload = in_.data() + in_begin_ + sizeof header;
    in_begin_ += sizeof header + (whole ? header.bytes : 0);
    parsed = true;
    if (header.type == FrameType::message) {
      on_message(header, payload);
    } else if (header.type == FrameType::control) {
      listener_.on_control(*this, header.tag.message, {payload, header.bytes});
    } else {
      handle(header);
    }
  }
  return parsed;
}

bool Link::read_more() {
  // Reads straight into the user's memory if a long message is only stored and none of it is buffered.
  if (incoming_left_ > 0 && in_begin_ == in_end_ && incoming_ != nullptr && incoming_->data != nullptr) {
    auto read = endpoint_->read({incoming_->data + incoming_done_, incoming_left_});
    if (!read.ok()) {
      fail(read.status());
      return false;
    }
    bytes_read_ += *read;
    incoming_done_ += *read;
    payload_read_ += *read;
    incoming_left_ -= *read;
    if (incoming_left_ == 0) finish_incoming();
    return *read > 0;
  }
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_.size() - in_end_ < kInputBytes / 4) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  // At most up to the end of the next header: a long message that it announces can then be read into its
  // place.
  const std::uint64_t wanted = incoming_left_ > 0 ? incoming_left() + sizeof(FrameHeader) : kShortInputBytes;
  auto read = endpoint_->read({in_.data() + in_end_, std::min<std::size_t>(wanted, in_.size() - in_end_)});
  if (!read.ok()) {
    fail(read.status());
    return false;
  }
  bytes_read_ += *read;
  in_end_ += *read;
  return *read > 0;
}

/// A peer that fails sends the reason before it closes. So after a failed write all that has come is read
/// first.
bool Link::take_in(bool readable) {
  const Status write_status = std::exchange(status_, Status());
  const bool is_ending = !write_status.ok();
  readable = readable || is_ending;
  if (readable) out_.begin_turn();
  bool moved = false;
  for (int i = 0; readable && (i < kReadsPerProgress || is_ending) && status_.ok(); ++i) {
    if (!read_more()) break;
    moved = true;
    parse();
    // The receive of this message may be posted soon: return, because what the caller waits for may have
    // come.
    if (incoming_ == &unexpected_sink_ && !is_ending) break;
  }
  if (status_.ok()) status_ = write_status;
  return moved;
}

Result<bool> Link::progress(bool readable) {
  if (!status_.ok()) return status_;
  bool moved = pull_more();
  moved = flush() || moved;
  moved = take_in(readable) || moved;
  if (status_.ok() && !abandoned_) status_ = pull_status_;
  if (status_.ok()) {
    moved = flush() || moved;
    if (!status_.ok()) take_in(true);
  }
  if (!status_.ok()) return status_;
  return moved;
}

void Link::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Link::abandon() {
  abandoned_ = true;
  if (is_memory_fault(status_)) status_ = Status();  // the peer must still be told
  endpoint_->revoke();
  receives_.clear();
  sends_.clear();
  pulls_.clear();
  unexpected_.clear();
  unexpected_bytes_ = 0;
  incoming_ = nullptr;  // the rest of it is read and dropped
  unexpected_sink_.memory = {};
  // Without the rest of this message, the peer would take the next frame for it.
  if (!out_.abandon()) fail(Status(Code::system, "no memory for the rest of a message"));
}

}  // namespace kolo::transport
