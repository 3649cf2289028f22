// Link: messages between this rank and one peer, over an endpoint. The one protocol for all transports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/deadline.hpp"
#include "base/memory_pool.hpp"
#include "base/ring_queue.hpp"
#include "base/status.hpp"
#include "transport/credit.hpp"
#include "transport/endpoint.hpp"
#include "transport/frame.hpp"
#include "transport/message.hpp"
#include "transport/send_queue.hpp"
#include "transport/tag_table.hpp"

namespace kolo::transport {

class Link;

/// What a Link reports to its owner, from inside post_*() and progress(). The owner must not call the Link
/// back from there, except through post_*() and send_control().
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  /// A message matched a receive that was posted for another call.
  virtual void on_mismatch(Link& link, const Tag& tag, const Signature& mine, const Signature& theirs) = 0;
  /// A message has come, or begun to come, for which no receive is posted yet.
  virtual void on_unexpected(Link& link, const Tag& tag, const Signature& theirs) = 0;
  virtual void on_control(Link& link, std::uint32_t kind, std::span<const std::byte> payload) = 0;
};

/// Messages up to eager_limit() are sent eagerly, as far as the peer gives credit. An eager message without a
/// posted receive is kept in memory of the Link. A longer message, or one for which no credit is left, is
/// offered. Its payload moves when its receive is posted. If the endpoint can pull, the receiver reads it
/// from the sender's memory. If not, the receiver answers `cts` and the sender streams it. So a message never
/// blocks those behind it. A SendQueue decides in which order frames leave.
///
/// The peer is not trusted. Whatever it sends, the Link reads and writes only memory that requests name, and
/// bounds the memory that it keeps for the peer. A peer that breaks the protocol ends this Link with
/// Code::system.
///
/// Used by one thread at a time. After an error every call does nothing but report the error again.
class Link {
 public:
  /// `memory` is where unexpected messages are kept; it outlives the Link and is used by the same threads.
  Link(int peer, std::unique_ptr<Endpoint> endpoint, LinkListener& listener, MemoryPool& memory);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Replaces a UnconnectedEndpoint by the real endpoint of the same transport.
  void connect(std::unique_ptr<Endpoint> endpoint) {
    endpoint_ = std::move(endpoint);
    out_.connect(*endpoint_);
  }

  int peer() const noexcept { return peer_; }
  Endpoint& endpoint() noexcept { return *endpoint_; }
  const Status& status() const noexcept { return status_; }

  /// Errors show in status() and in the next progress().
  void post_send(MessageRequest& request);
  void post_receive(MessageRequest& request);
  /// Leaves behind the frames that are already queued or, if it is urgent, behind the one that has begun.
  void send_control(std::uint32_t kind, std::span<const std::byte> payload, bool is_urgent = false);

  /// Writes what has room, also within MessageRequest::consume().
  void write_now();
  /// Moves what can move now; returns whether anything moved. Reads only if `readable` is true (there may be
  /// something to read), because a read costs a system call on some endpoints.
  Result<bool> progress(bool readable);
  /// Payload bytes of long messages that went through the stream so far, both ways.
  std::uint64_t payload_moved() const noexcept { return payload_read_ + out_.payload_written(); }
  /// Bytes that the stream must still bring to complete the message that is arriving.
  std::uint64_t incoming_left() const noexcept {
    return arrival_.left - std::min<std::uint64_t>(arrival_.left, in_end_ - in_begin_);
  }
  /// Bytes of any kind that have come from the peer so far.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// The peer still has to send or to answer something.
  bool awaits_something() const noexcept {
    return !receives_.empty() || !sends_.empty() || !pulls_.empty() || incoming_left() > 0;
  }
  /// There is more to take in without another byte from the peer, so no wake-up comes for it: call progress()
  /// again.
  bool has_pulls() const noexcept { return !pulls_.empty(); }
  /// Takes in messages that were kept, also after an error: they need no peer. Returns whether there were
  /// any.
  bool consume_buffered() { return has_buffered() && pull_more(); }
  bool has_buffered() const noexcept { return !pulls_.empty() && pulls_.front().kept.memory != nullptr; }
  /// The longest message that is sent before the receiver asks for it. The same at both ends.
  std::uint64_t eager_limit() const noexcept {
    return endpoint_->can_pull() ? kShortMessageBytes : kStreamEagerLimit;
  }
  /// This rank has something to send to the peer, or to receive from it.
  bool is_wanted() const noexcept { return wants_write() || awaits_something(); }
  /// A posted request needs the peer to go on.
  bool is_waiting() const noexcept;
  /// There are bytes for which the endpoint had no room, or which are queued behind other bytes.
  bool wants_write() const noexcept { return !out_.empty(); }

  /// Whether any message has come, or begun to come, whose receive is not posted.
  bool has_unexpected() const noexcept { return !unexpected_.empty(); }
  /// Whether the message with this tag has.
  bool has_unexpected(const Tag& tag) const { return unexpected_.contains(tag); }
  /// Calls `function` with tag and signature of each message that came before its receive was posted.
  template <typename Function>
  void for_each_unexpected(Function function) const {
    unexpected_.for_each([&](const Tag& tag, const Unexpected& u) { function(tag, u.header.signature); });
  }
  /// The same for those of one operation.
  template <typename Function>
  void for_each_unexpected_of(std::uint32_t context, std::uint64_t sequence, Function function) const {
    unexpected_.for_each_of(context, sequence,
                            [&](const Tag& tag, const Unexpected& u) { function(tag, u.header.signature); });
  }

  /// Forgets all requests and revokes the memory that was offered to the peer. After this returns, the Link
  /// neither reads nor writes the requests' memory. A frame that is half written goes out whole, from a copy,
  /// so control messages still get through.
  void abandon();
  /// The same for the requests so far; messages that have come stay. The peer will send no more.
  void forget();

 private:
  using Payload = MemoryPool::Block;
  struct Sent {
    MessageRequest* request = nullptr;
    bool offered = false;  // not in the stream yet: the peer pulls it or answers `cts`
  };
  struct Receive {
    MessageRequest* request;
    bool offered = false;  // and `cts` is sent, or the offer was revoked
  };
  struct Pull {
    FrameHeader offer;
    MessageRequest* request = nullptr;
    Payload kept = {};       // the payload, if it came before the receive was posted
    std::uint64_t done = 0;  // bytes that have been consumed
  };
  /// A message, from its first byte on, whose receive is not posted.
  struct Unexpected {
    FrameHeader header;
    Payload memory;          // of `header.bytes` bytes; null for an offer
    std::uint64_t come = 0;  // bytes in `memory`
  };
  static_assert(TagTable<Unexpected>::kEntryBytes <= Credit::kOverhead);
  /// The eager message that is arriving. Its bytes go to `request`, to the last entry of `unexpected_` or, if
  /// the message was dropped, nowhere.
  struct Arrival {
    MessageRequest* request = nullptr;
    bool is_unexpected = false;
    bool acknowledged = false;
    bool is_long = false;
    std::uint64_t done = 0;
    std::uint64_t left = 0;
  };

  bool take_in(bool readable);
  bool flush();
  bool read_more();
  bool grow_input();
  bool parse();
  bool take_payload();
  void consume(std::uint64_t size);
  void handle(const FrameHeader& header);
  void on_eager(const FrameHeader& header);
  void find_place(const FrameHeader& header);
  std::byte* place_of_next();
  void advance(std::uint64_t bytes);
  void finish_arrival();
  void meet(Unexpected message, MessageRequest& request);
  void keep(const FrameHeader& header, Payload memory);
  void release(const FrameHeader& header, Payload memory);
  void return_credit();
  void on_rts(const FrameHeader& header);
  void on_cts(const FrameHeader& header);
  void on_ack(const FrameHeader& header);
  void answer_rts(const FrameHeader& offer, MessageRequest& request);
  void start_or_queue_pull(Pull next);
  void pull(Pull next);
  bool pull_more();
  Status copy_offered(const Pull& from, std::uint64_t bytes);
  bool agrees(const FrameHeader& header, const MessageRequest& request);
  void send_eager(MessageRequest& request, bool is_asked_for);
  void prepare(SendQueue::Frame& message);
  void reply(FrameType type, const Tag& tag, std::uint64_t bytes = 0);
  void fail(Status status);
  void corrupt(const std::string& what);
  static FrameHeader header_for(FrameType type, const MessageRequest& request);

  const int peer_;
  std::unique_ptr<Endpoint> endpoint_;
  LinkListener& listener_;
  MemoryPool& memory_;
  Status status_;
  Status pull_status_;  // becomes `status_` after all of the stream has been read
  bool abandoned_ = false;
  std::uint64_t payload_read_ = 0;
  std::uint64_t bytes_read_ = 0;

  SendQueue out_{*endpoint_};

  std::unique_ptr<std::byte[]> in_;
  std::size_t in_capacity_;  // a link that has carried little has a small buffer
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;

  Arrival arrival_;

  // Long messages whose receive is posted and that wait to be taken in: offers or, if the endpoint cannot
  // pull, kept messages.
  RingQueue<Pull> pulls_;
  std::uint64_t pull_budget_left_ = 0;  // bytes that may be pulled before this rank writes to the peer again
  Clock::time_point pull_until_{};      // when this round of pulls must end; set by the first pull

  TagTable<Receive> receives_;
  TagTable<Sent> sends_;  // offered, or written and waiting for their acknowledgement
  TagTable<Unexpected> unexpected_;
  std::size_t offers_ = 0;      // in `unexpected_`
  Credit credit_;               // for what this rank sends
  Credit peers_credit_;         // for what the peer sends
  std::uint64_t released_ = 0;  // part of that to give back
};

}  // namespace kolo::transport
