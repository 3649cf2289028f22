// SendQueue: what a Link has to write to its peer, and what of it leaves next.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ring_queue.hpp"
#include "transport/frame.hpp"
#include "transport/message.hpp"

namespace kolo::transport {

/// Decides alone what leaves when. The frame that has begun goes first. *Urgent* frames follow: answers to
/// the peer and pings, which must not wait behind hundreds of MiB of this rank's own messages. All other
/// frames leave in the order in which they were pushed. Within a host, long eager messages wait until nothing
/// else is queued, and warm ones (memory touched lately) alternate with cold ones.
class SendQueue {
 public:
  static constexpr std::size_t kMostParts = 16;  // headers and payloads of one write

  struct Frame {
    FrameHeader header;
    MessageRequest* request = nullptr;   ///< of a message: its bytes follow the header
    std::vector<std::byte> owned = {};   ///< the payload of a control message
    bool is_urgent = false;              ///< of a control message; answers of the Link always are
    bool may_leave = false;              ///< of a message: it was asked for, or has its credit
    const std::byte* payload = nullptr;  ///< of a message, set when it leaves
    std::uint64_t written = 0;           ///< of header and payload together
  };
  struct Write {
    std::array<iovec, kMostParts> parts;
    std::size_t count = 0;
    std::uint64_t bytes = 0;
  };

  explicit SendQueue(const Endpoint& endpoint) { connect(endpoint); }
  /// Another endpoint takes what is queued.
  void connect(const Endpoint& endpoint) {
    in_host_ = endpoint.shares_caches();
    turn_left_ = turn_bytes_ = endpoint.write_budget();
  }

  void push(Frame frame);

  bool empty() const noexcept { return size() == 0 && !has_waiting(); }
  /// Whether any message is queued.
  bool has_messages() const;
  /// Control messages that have not left.
  std::size_t controls() const noexcept { return controls_; }
  /// Bytes of long messages that have left, with their headers.
  std::uint64_t payload_written() const noexcept { return payload_written_; }

  /// To be called when the endpoint is read: the next bytes to write begin a turn of their own.
  void begin_turn() noexcept { turn_left_ = turn_bytes_; }
  bool has_turn() const noexcept { return turn_left_ > 0; }
  /// What the next write takes. Calls `leaving(Frame&)` for each message that has not begun. `leaving` sets
  /// `payload`, or makes an offer of it. The next call of this queue is written(), clear() or next() again.
  template <typename Leaving>
  Write next(Leaving leaving) {
    queue_waiting();
    Write write;
    std::uint64_t turn_left = turn_left_;
    for (std::size_t i = 0; i < size() && has_room(write); ++i) {
      Frame& frame = at(i);
      if (frame.request != nullptr && frame.written == 0) leaving(frame);
      add_parts(write, frame, turn_left);
    }
    return write;
  }
  /// The endpoint took the first `bytes` bytes. Stores the messages that have left whole to `gone`; returns
  /// how many.
  std::size_t written(std::uint64_t bytes, std::span<MessageRequest*, kMostParts> gone);

  /// Keeps control messages and the frame that has begun, which owns a copy of its payload from now on.
  /// Returns false, with an empty queue, if there is no memory for the copy.
  bool abandon();
  void clear();

 private:
  std::size_t size() const noexcept { return (begun_ ? 1 : 0) + urgent_.size() + in_order_.size(); }
  bool has_waiting() const noexcept { return !warm_.empty() || !cold_.empty(); }
  Frame& at(std::size_t place);
  bool has_room(const Write& write) const;
  static void add_parts(Write& write, Frame& frame, std::uint64_t& turn_left);
  void queue_waiting();
  void pop();

  bool in_host_ = false;
  std::uint64_t turn_bytes_ = 0;
  std::uint64_t turn_left_ = 0;  // message bytes that may leave before the next read
  std::size_t controls_ = 0;
  std::uint64_t payload_written_ = 0;

  std::optional<Frame> begun_;  // partly written
  RingQueue<Frame> urgent_, in_order_;
  // Long messages that wait until nothing else is queued: from memory touched lately, and from other memory.
  RingQueue<Frame> warm_, cold_;
  bool was_warm_ = false;  // the last of these that was queued
};

}  // namespace kolo::transport
