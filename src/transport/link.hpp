// Link: messages between this rank and one peer, over an endpoint. The one protocol for all transports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "transport/endpoint.hpp"
#include "transport/frame.hpp"
#include "transport/message.hpp"
#include "transport/tag_table.hpp"

namespace kolo {

class Link;

/// What a Link tells its owner, from inside post_*() and progress(). It must not call the Link back from
/// there, except through post_*() and send_control().
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  /// A message met a receive that was asked for something else.
  virtual void on_mismatch(Link& link, const Tag& tag, const Signature& mine, const Signature& theirs) = 0;
  /// A message came for which no receive is posted (yet).
  virtual void on_unexpected(Link& link, const Tag& tag, const Signature& theirs) = 0;
  virtual void on_control(Link& link, std::uint32_t kind, std::span<const std::byte> payload) = 0;
};

/// Messages up to unasked_bytes() are sent at once. One that is ahead of its receive is kept in memory of the
/// Link, until that is a lot: then those that follow wait at the sender, as longer ones do. These move only
/// when their receive is posted: the receiver pulls them from the sender's memory where the endpoint can,
/// else it says `ready` and the sender streams them. So a message never blocks those behind it. Within a host
/// long messages stream when there is nothing else to write, and those of memory that has been touched lately
/// do not wait behind all others.
///
/// The peer is not trusted: whatever it sends, memory that requests do not name is neither read nor written,
/// what is kept for it is bounded, and a peer that breaks the protocol ends this link with Code::system.
///
/// Used by one thread at a time. After an error every call is a no-op that reports it again.
class Link {
 public:
  Link(int peer, std::unique_ptr<Endpoint> endpoint, LinkListener& listener);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Puts the real endpoint in the place of a WaitingEndpoint of the same transport.
  void connect(std::unique_ptr<Endpoint> endpoint) {
    endpoint_ = std::move(endpoint);
    turn_left_ = endpoint_->turn_bytes();
  }

  int peer() const noexcept { return peer_; }
  Endpoint& endpoint() noexcept { return *endpoint_; }
  const Status& status() const noexcept { return status_; }

  /// Errors show in status() and in the next progress().
  void post_send(MessageRequest& request);
  void post_receive(MessageRequest& request);
  /// Goes out behind what is already queued.
  void send_control(std::uint32_t kind, std::span<const std::byte> payload);

  /// Moves what can move now; returns whether anything did. Reads only when `readable` says that there may be
  /// something, because looking costs a system call on some endpoints.
  Result<bool> progress(bool readable);
  /// Bytes of messages beyond kWholeBytes that went through the stream so far, both ways.
  std::uint64_t payload_moved() const noexcept { return payload_moved_; }
  /// Bytes that the stream must still bring before the message is whole that it is in the middle of.
  std::uint64_t incoming_left() const noexcept {
    return incoming_left_ - std::min<std::uint64_t>(incoming_left_, in_end_ - in_begin_);
  }
  /// Bytes of any kind that have come from the peer so far.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// The peer has something to send or to answer.
  bool awaits_something() const noexcept {
    return !receives_.empty() || !sends_.empty() || !pulls_.empty() || incoming_left() > 0;
  }
  /// There is more to take in, for which no byte of the peer will wake anybody: progress() goes on.
  bool has_pulls() const noexcept { return !pulls_.empty(); }
  /// What has come is taken in, also after an error: no peer is needed for that. Returns whether there was
  /// any.
  bool take_kept() { return has_kept() && pull_more(); }
  bool has_kept() const noexcept { return !pulls_.empty() && pulls_.front().kept != nullptr; }
  /// How long a message is at most that is sent without being asked for. The same at both ends.
  std::uint64_t unasked_bytes() const noexcept { return endpoint_->can_pull() ? kWholeBytes : kUnaskedBytes; }
  /// There is something to say to the peer or to hear from it.
  bool is_wanted() const noexcept { return wants_write() || awaits_something(); }
  /// A posted request needs the peer to go on.
  bool is_waiting() const noexcept;
  /// There are bytes that the endpoint had no room for, or whose turn has not come.
  bool wants_write() const noexcept {
    return out_head_ < out_.size() || has_waiting() || holds_peer_ != has_said_hold_;
  }

  /// Whether any message has come, or begun to come, for which no receive is posted.
  bool has_unexpected() const noexcept { return !unexpected_.empty() || incoming_ == &early_; }
  /// Whether this one has.
  bool has_unexpected(const Tag& tag) const {
    return unexpected_.contains(tag) || (incoming_ == &early_ && early_.header.tag == tag);
  }
  /// Signatures of messages of this operation that came before their receive was posted.
  template <typename Function>
  void for_each_unexpected(Function function) const {
    unexpected_.for_each([&](const Tag& tag, const Unexpected& u) { function(tag, u.header.signature); });
  }

  /// Forgets all requests, so that their memory is the caller's again: nothing of it is read or written after
  /// this returns. A frame that is half written goes out whole (from a copy), so control messages still get
  /// through. Memory that was offered to the peer is revoked.
  void abandon();

 private:
  using Payload = std::unique_ptr<std::byte[]>;
  struct OutFrame {
    FrameHeader header;
    const std::byte* payload = nullptr;  // header.bytes of them for message and data, once they leave
    std::uint64_t written = 0;           // of header and payload together
    MessageRequest* request = nullptr;   // of a message or data: told, or awaited, once all is written
    std::vector<std::byte> owned;        // the payload, where the Link keeps it
    bool is_asked = false;               // for this very message: the peer does not hold it
  };
  struct Sent {
    MessageRequest* request = nullptr;
    bool offered = false;  // its bytes have not gone into the stream: the peer pulls them or says ready
  };
  struct Receive {
    MessageRequest* request;
    bool offered = false;  // and `ready` has gone out, or the offer was taken back
  };
  /// Takes in a long message that is ahead of its receive.
  struct Early final : MessageRequest {
    explicit Early(Link& owner) : link(owner) {}
    void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) override;
    void finished() override { link.keep(header, std::move(memory)); }
    Link& link;
    FrameHeader header;
    Payload memory;
  };
  struct Pull {
    FrameHeader offer;
    MessageRequest* request;
    Payload kept = nullptr;  // where it has come already, ahead of its receive
    std::uint64_t done = 0;  // bytes that have been taken
  };
  struct Unexpected {
    FrameHeader header;
    Payload payload;  // header.bytes of them, unless it is an offer
    std::size_t size() const { return sizeof(Unexpected) + (payload == nullptr ? 0 : header.bytes); }
  };

  void enqueue(OutFrame frame);
  void offer_instead(OutFrame& message);
  bool take_in(bool readable);
  bool flush();
  bool read_more();
  bool parse();
  bool parse_payload();
  void handle(const FrameHeader& header);
  void on_data(const FrameHeader& header);
  void finish_incoming();
  void adopt_early(MessageRequest& request);
  bool can_keep(std::uint64_t bytes);
  void keep(const FrameHeader& header, Payload payload);
  void align_input();
  void on_message(const FrameHeader& header, const std::byte* payload);
  void on_offer(const FrameHeader& header);
  void on_ready(const FrameHeader& header);
  void on_done(const FrameHeader& header);
  void answer_offer(const FrameHeader& offer, MessageRequest& request);
  void take_turn(Pull next);
  void pull(Pull next);
  bool pull_more();
  Status copy_offered(const Pull& from, std::uint64_t bytes);
  bool agrees(const FrameHeader& header, const MessageRequest& request);
  bool has_waiting() const noexcept { return !warm_.empty() || !cold_.empty(); }
  void send_data(MessageRequest& request);
  void enqueue_waiting();
  void enqueue_hold();
  void enqueue_data(MessageRequest& request, bool is_asked);
  void reply(FrameType type, const Tag& tag);
  void fail(Status status);
  void corrupt(const std::string& what);
  static FrameHeader header_for(FrameType type, const MessageRequest& request);

  const int peer_;
  std::unique_ptr<Endpoint> endpoint_;
  LinkListener& listener_;
  Status status_;
  Status pull_status_;  // becomes status_ once the stream has been read to its end
  bool abandoned_ = false;
  std::uint64_t payload_moved_ = 0;
  std::uint64_t bytes_read_ = 0;

  std::vector<OutFrame> out_;
  std::size_t out_head_ = 0;
  // Long messages that go when there is nothing else to write: of memory touched lately, and of other memory.
  std::deque<MessageRequest*> warm_, cold_;
  bool was_warm_ = false;  // the last one of them
  std::size_t controls_queued_ = 0;
  std::uint64_t turn_left_ = endpoint_->turn_bytes();  // what may be written before the next attempt to read

  std::vector<std::byte> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;

  // The message that the stream is in the middle of, and that does not come through the buffer as a whole.
  MessageRequest* incoming_ = nullptr;
  bool incoming_acknowledged_ = false;
  std::uint64_t incoming_left_ = 0;
  std::uint64_t incoming_done_ = 0;
  Early early_{*this};

  // Offers or, where the endpoint cannot pull, long messages that were kept, that have met their receive and
  // wait for their turn.
  std::deque<Pull> pulls_;
  std::uint64_t pull_left_ = 0;     // bytes that may be pulled before the peer must hear of it
  Clock::time_point pull_until_{};  // that it may last; from the first on

  TagTable<Receive> receives_;
  TagTable<Sent> sends_;  // offered, or written and waiting for their acknowledgement
  TagTable<Unexpected> unexpected_;
  std::size_t unexpected_bytes_ = 0;
  bool holds_peer_ = false;
  bool has_said_hold_ = false;  // what the peer has been told of that, or will be with what is in out_
  bool is_held_ = false;        // by the peer
};

}  // namespace kolo
