#include "transport/link.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "kolo/dtype.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::transport {
namespace {

constexpr std::size_t kFirstInputBytes = 512;          // a goodbye, with room for the reason of a failure
constexpr std::size_t kInputBytes = 128 * 1024;        // stays in L2 between reading and reducing
constexpr std::uint64_t kShortInputBytes = 16 * 1024;  // some short messages, or the beginning of a long one
constexpr int kReadsPerProgress = 16;
constexpr std::size_t kAlignment = 8;  // of all elements
constexpr std::size_t kGranule = 16;   // the largest element
static_assert(std::ranges::all_of(kElementTypes,
                                  [](const ElementType& t) { return kGranule % t.bytes == 0; }));

constexpr std::size_t kMostOffers = 1 << 20;  // whose receives are not posted

}  // namespace

Link::Link(int peer, std::unique_ptr<Endpoint> endpoint, LinkListener& listener, MemoryPool& memory)
    : peer_(peer),
      endpoint_(std::move(endpoint)),
      listener_(listener),
      memory_(memory),
      in_(std::make_unique_for_overwrite<std::byte[]>(kFirstInputBytes)),
      in_capacity_(kFirstInputBytes) {}

bool Link::is_waiting() const noexcept {
  return !receives_.empty() || !sends_.empty() || (has_pulls() && !has_buffered()) ||
         arrival_.request != nullptr || out_.has_messages();
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
  auto waiting = unexpected_.take(request.tag);
  if (!waiting) return receives_.add(request.tag, {&request});
  const FrameHeader& header = waiting->header;
  if (header.type == FrameType::eager) return meet(std::move(*waiting), request);
  --offers_;
  if (agrees(header, request)) answer_rts(header, request);
}

/// The receive takes over what has come of the message, and the rest goes straight to it.
void Link::meet(Unexpected message, MessageRequest& request) {
  const FrameHeader& header = message.header;
  const bool is_arriving = message.come < header.bytes;
  if (is_arriving) arrival_.is_unexpected = false;
  if (!agrees(header, request)) return release(header, std::move(message.memory));
  if (!is_arriving && header.bytes > kShortMessageBytes)
    return start_or_queue_pull({header, &request, std::move(message.memory)});
  if (const std::uint64_t odd = message.come % kGranule; is_arriving && odd > 0 && request.data == nullptr) {
    // The last bytes may be part of an element: they go back to the input buffer. It is empty, because all of
    // it that belonged to the message has been stored.
    message.come -= odd;
    std::memcpy(in_.get(), message.memory.memory.get() + message.come, odd);
    in_begin_ = 0;
    in_end_ = odd;
    arrival_.done -= odd;
    arrival_.left += odd;
  }
  if (message.come > 0) request.consume(0, message.memory.memory.get(), message.come);
  release(header, std::move(message.memory));
  if (is_arriving) {
    arrival_.request = &request;
    return;
  }
  if (header.acknowledged) reply(FrameType::ack, request.tag);
  request.finished();
}

/// An eager message that the peer was not asked for keeps no memory here any more.
void Link::release(const FrameHeader& header, Payload memory) {
  memory_.give_back(std::move(memory));
  released_ += Credit::cost_of(header.bytes);
  if (released_ >= Credit::kBatch) return_credit();
}

void Link::return_credit() {
  peers_credit_.give_back(released_);
  reply(FrameType::credit, {}, std::exchange(released_, 0));
}

void Link::keep(const FrameHeader& header, Payload memory) {
  unexpected_.add(header.tag, {header, std::move(memory)});
  arrival_.is_unexpected = header.type == FrameType::eager;
  listener_.on_unexpected(*this, header.tag, header.signature);
}

void Link::on_rts(const FrameHeader& header) {
  if (abandoned_) return;
  const Receive* posted = receives_.find(header.tag);
  if (posted == nullptr) {
    if (++offers_ > kMostOffers) return corrupt("too many offers for which no receive is posted");
    return keep(header, {});
  }
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

void Link::on_eager(const FrameHeader& header) {
  arrival_ = {.acknowledged = header.acknowledged != 0,
              .is_long = header.bytes > kShortMessageBytes,
              .left = header.bytes};
  if (!abandoned_) find_place(header);
  if (status_.ok() && arrival_.left == 0) finish_arrival();
}

/// Without a place, the bytes of the message that arrives are dropped.
void Link::find_place(const FrameHeader& header) {
  const auto posted = receives_.take(header.tag);
  if (!posted || !posted->offered) {
    if (header.bytes > eager_limit()) return corrupt("data that nobody asked for");
    if (!peers_credit_.take(Credit::cost_of(header.bytes)))
      return corrupt("more messages without a receive than it has credit for");
    if (!posted) return keep(header, memory_.take(header.bytes));
    release(header, {});
  }
  if (agrees(header, *posted->request)) arrival_.request = posted->request;
}

void Link::finish_arrival() {
  const Arrival whole = std::exchange(arrival_, {});
  if (whole.request == nullptr) return;
  if (whole.acknowledged) reply(FrameType::ack, whole.request->tag);
  whole.request->finished();
}

/// The next `bytes` bytes of the message are in their place.
void Link::advance(std::uint64_t bytes) {
  arrival_.done += bytes;
  arrival_.left -= bytes;
  if (arrival_.is_unexpected) unexpected_.back().come = arrival_.done;
  if (arrival_.is_long) payload_read_ += bytes;
  if (arrival_.left == 0) finish_arrival();
}

/// Where the next bytes of the message are stored; null if they are consumed or dropped.
std::byte* Link::place_of_next() {
  std::byte* message = nullptr;
  if (arrival_.request != nullptr) message = arrival_.request->data;
  if (arrival_.is_unexpected) message = unexpected_.back().memory.memory.get();
  return message == nullptr ? nullptr : message + arrival_.done;
}

void Link::corrupt(const std::string& what) {
  fail(Status(Code::system, fmt::format("received nonsense over {}: {}", endpoint_->describe(), what)));
}

void Link::handle(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::eager:
      return on_eager(header);
    case FrameType::rts:
      return on_rts(header);
    case FrameType::cts:
      return on_cts(header);
    case FrameType::ack:
      return on_ack(header);
    case FrameType::credit:
      if (!credit_.give_back(header.bytes)) corrupt("credit for more than it was sent");
      return;
    case FrameType::control:
      return;  // parse() handles it with its payload
  }
}

bool Link::take_payload() {
  std::uint64_t size = std::min<std::uint64_t>(in_end_ - in_begin_, arrival_.left);
  std::byte* const place = place_of_next();
  // A reduction takes whole elements. A message that is only stored leaves nothing in the input buffer: the
  // rest of it is then read into its place.
  if (place == nullptr && size < arrival_.left) size -= size % kGranule;
  if (size == 0) return false;
  if (arrival_.request != nullptr) {
    consume(size);
  } else if (arrival_.is_unexpected) {
    std::memcpy(place, in_.get() + in_begin_, size);
  }
  in_begin_ += size;
  advance(size);
  return true;
}

/// Reductions, above all the user's own, need aligned operands; short messages of odd sizes shift the stream.
void Link::consume(std::uint64_t size) {
  MessageRequest& request = *arrival_.request;
  if (request.data != nullptr) return request.consume(arrival_.done, in_.get() + in_begin_, size);
  if (in_begin_ % kAlignment != 0 && size < arrival_.left) {
    // All that is buffered belongs to this message.
    std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const std::byte* from = in_.get() + in_begin_;
  if (in_begin_ % kAlignment == 0) return request.consume(arrival_.done, from, size);
  alignas(kAlignment) std::byte aligned[4096];
  for (std::uint64_t done = 0, piece; done < size; done += piece) {
    piece = std::min<std::uint64_t>(size - done, sizeof aligned);
    std::memcpy(aligned, from + done, piece);
    request.consume(arrival_.done + done, aligned, piece);
  }
}

bool Link::parse() {
  bool parsed = false;
  while (status_.ok()) {
    if (arrival_.left > 0) {
      if (!take_payload()) break;
      parsed = true;
      continue;
    }
    if (in_end_ - in_begin_ < sizeof(FrameHeader)) break;
    FrameHeader header;
    std::memcpy(&header, in_.get() + in_begin_, sizeof header);
    if (header.magic != FrameHeader::kMagic || header.type < FrameType::eager ||
        header.type > FrameType::credit) {
      corrupt("a frame that is none");
      break;
    }
    const bool is_control = header.type == FrameType::control;
    if (is_control && header.bytes > kMaxControlBytes) {
      corrupt(fmt::format("a frame of {} bytes", header.bytes));
      break;
    }
    // Control and short messages are taken in as a whole.
    const bool is_short = header.type == FrameType::eager && header.bytes <= kShortMessageBytes;
    if ((is_control || is_short) && in_end_ - in_begin_ < sizeof header + header.bytes) break;
    const std::byte* payload = in_.get() + in_begin_ + sizeof header;
    in_begin_ += sizeof header + (is_control ? header.bytes : 0);
    parsed = true;
    if (is_control) {
      listener_.on_control(*this, header.tag.message, {payload, header.bytes});
    } else {
      handle(header);
    }
  }
  return parsed;
}

bool Link::read_more() {
  // A long message that is only stored is read straight into its memory, once none of it is buffered.
  if (std::byte* const place = arrival_.left > 0 && in_begin_ == in_end_ ? place_of_next() : nullptr) {
    auto read = endpoint_->read({place, arrival_.left});
    if (!read.ok()) {
      fail(read.status());
      return false;
    }
    bytes_read_ += *read;
    advance(*read);
    return *read > 0;
  }
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_capacity_ - in_end_ < in_capacity_ / 4) {
    std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  if (in_end_ == in_capacity_ && !grow_input()) throw std::bad_alloc();
  // At most up to the end of the next header: a long message that it announces can then be read into its
  // place.
  const std::uint64_t wanted = arrival_.left > 0 ? incoming_left() + sizeof(FrameHeader) : kShortInputBytes;
  auto read = endpoint_->read({in_.get() + in_end_, std::min<std::size_t>(wanted, in_capacity_ - in_end_)});
  if (!read.ok()) {
    fail(read.status());
    return false;
  }
  const bool is_first = bytes_read_ == 0;
  bytes_read_ += *read;
  in_end_ += *read;
  if (*read > 0 && in_capacity_ < kInputBytes && (!is_first || in_end_ == in_capacity_)) grow_input();
  return *read > 0;
}

/// Most links of many ranks carry a goodbye and nothing else. Returns whether there was memory: without it,
/// what fits in the small buffer can still be read, such as the reason of a failure.
bool Link::grow_input() {
  std::unique_ptr<std::byte[]> larger(new (std::nothrow) std::byte[kInputBytes]);
  if (larger == nullptr) return false;
  std::memcpy(larger.get() + in_begin_, in_.get() + in_begin_, in_end_ - in_begin_);
  in_ = std::move(larger);
  in_capacity_ = kInputBytes;
  return true;
}

/// A peer that fails sends the reason before it closes. So after a failed write all that has come is read
/// first.
bool Link::take_in(bool readable) {
  const Status write_status = std::exchange(status_, Status());
  const bool is_ending = !write_status.ok();
  readable = readable || is_ending;
  if (readable) out_.begin_turn();
  bool moved = is_ending && parse();
  for (int i = 0; readable && (i < kReadsPerProgress || is_ending) && status_.ok(); ++i) {
    if (!read_more()) break;
    moved = true;
    parse();
    // The receive of this message may be posted soon: return, because what the caller waits for may have
    // come.
    if (arrival_.is_unexpected && !is_ending) break;
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
  unexpected_.clear();
  arrival_.is_unexpected = false;
  forget();
}

void Link::forget() {
  if (is_memory_fault(status_)) status_ = Status();  // the peer must still be told
  endpoint_->revoke();
  receives_.clear();
  sends_.clear();
  pulls_.clear();
  arrival_.request = nullptr;  // the rest of it is read and dropped
  // Without the rest of this message, the peer would take the next frame for it.
  if (!out_.abandon()) fail(Status(Code::system, "no memory for the rest of a message"));
}

}  // namespace kolo::transport
