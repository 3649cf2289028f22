// Endpoint: a reliable stream of bytes between this rank and one peer.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace kolo::transport {

class LocalPeer;

/// Names memory of the sender to the receiver. Region 0: `offset` is a virtual address in the sender's
/// process. Otherwise: an offset in that SharedMemory region. Travels between processes.
struct RemoteRange {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
};

/// One side of a connection. Used by one thread at a time. All calls return at once. After the first error
/// every call returns an error. The peer's death and its end of the stream are Code::peer_lost, a host that
/// does not answer is Code::timeout; the message does not name the peer's rank, which the caller knows.
///
/// Bytes move through write() and read(). If can_pull() is true, a long message need not: the sender
/// expose()s its memory and the receiver reads it there, an RDMA-style get.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual std::string_view transport() const = 0;
  /// For messages and logs: "tcp 10.0.0.1:4000 to 10.0.0.2:29501".
  virtual std::string describe() const = 0;

  /// Moves on what both sides exchange before the first byte, if anything; true once that is done. read() and
  /// write() do it too.
  virtual Result<bool> set_up() { return true; }
  /// Writes as much of the parts as fits now; returns how many bytes, 0 if there is no room.
  virtual Result<std::size_t> write(std::span<const iovec> parts) = 0;
  /// Reads at most `into.size()` bytes; returns how many. 0: none are there now, or the last read() took all.
  /// In the second case bytes that have come since make fd() readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;

  /// Bytes written that are known to have reached the peer's host; 0 if that is not known.
  virtual std::uint64_t delivered() const { return 0; }
  /// Bytes written that are not known to have reached the peer's host.
  virtual std::uint64_t undelivered() const { return 0; }
  /// Both ends are on one host. Data that has just come is best sent on while it is still in the caches.
  virtual bool shares_caches() const { return false; }
  /// Write budget: the most message bytes to write between two reads. If both ends share caches, a longer
  /// burst evicts what the peer has written before it is read.
  virtual std::uint64_t write_budget() const { return std::numeric_limits<std::uint64_t>::max(); }

  /// --- Waiting. -----------------------------------------------------------------------------------------
  /// True if read() and write() cost no system call: a spinning caller may try them in a loop. False if each
  /// try is a system call, as poll(2) on fd() is.
  virtual bool polls_are_free() const = 0;
  /// True if fd() tells nothing unless arm() was called before. If false, arm() and disarm() do nothing.
  virtual bool must_be_armed() const { return polls_are_free(); }
  /// read() has something that fd() does not tell.
  virtual bool holds_input() const { return false; }
  /// A descriptor that polls readable (POLLIN or POLLHUP) when an armed endpoint has something to do, and
  /// when the peer is gone. Stays the same for life. Call drain() when it polled readable.
  virtual int fd() const = 0;
  /// Asks the peer to make fd() readable when bytes arrive or, with `for_room`, when there is room to write.
  /// (If must_be_armed() is false, poll fd() for POLLOUT instead.) Returns false if there already is
  /// something to do: then do not sleep. Call disarm() after every arm().
  virtual bool arm(bool for_room) = 0;
  virtual void disarm() = 0;
  /// At least so many bytes will come. fd() need not poll readable before most of them have come, or enough
  /// to be worth a wake-up. 0: unknown; every byte counts.
  virtual void expect(std::uint64_t /*bytes*/) {}
  /// Consumes what made fd() readable. This call or the next read() notices that the peer is gone.
  virtual Status drain() = 0;

  /// --- Pulling. An endpoint that cannot pull overrides none of these. ------------------------------------
  /// Whether this rank may read the peer's memory, as probed when connecting. The same on both sides.
  virtual bool can_pull() const { return false; }
  /// Sender: the name of this memory for the peer. Sends the descriptor of its SharedMemory region if the
  /// peer does not have it yet. nullopt: send the data through the stream.
  virtual std::optional<RemoteRange> expose(const void* /*data*/, std::size_t /*bytes*/) {
    return std::nullopt;
  }
  /// Receiver: the peer's memory in this address space, valid until the peer frees it. Null if it is not
  /// mapped here: then fetch().
  virtual Result<const std::byte*> map(const RemoteRange& /*range*/, std::size_t /*bytes*/) {
    return cannot_pull();
  }
  /// Receiver: copies from the peer's memory.
  virtual Status fetch(const RemoteRange& /*range*/, std::span<std::byte> /*into*/) { return cannot_pull(); }
  /// Sender: nothing that was exposed so far may be trusted any more. Takes effect at once, ahead of what is
  /// in the stream: a peer that pulls later and then calls revoked() learns of it. revoked(), on the
  /// receiver: whether the peer has revoked.
  virtual void revoke() {}
  virtual bool revoked() const { return false; }

  /// Access to the memory that this rank and the peer share as ranks of one host, for collectives in shared
  /// memory. Null if they share none, or have no segments. Lives as long as the endpoint.
  virtual LocalPeer* local_peer() { return nullptr; }

 private:
  static Status cannot_pull() { return Status(Code::system, "no memory can be pulled over this endpoint"); }
};

}  // namespace kolo::transport
