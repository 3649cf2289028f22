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

namespace kolo {

class Neighbour;

/// Memory of the sender, as the receiver may name it. region 0: a virtual address of the sender's process;
/// otherwise an offset in that SharedMemory region. Travels between processes.
struct RemoteRange {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
};

/// One side of a connection. Used by one thread at a time. All calls return at once. After the first error
/// every call returns an error; the peer's death, or its end of the stream, is Code::peer_lost with a message
/// without the peer's rank (the caller knows it).
///
/// Bytes move through write() and read(). Where can_pull() says so, long messages need not: the sender
/// expose()s them and the receiver reads them where they lie.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual std::string_view transport() const = 0;
  /// For messages and logs: "tcp 10.0.0.1:4000 to 10.0.0.2:29501".
  virtual std::string describe() const = 0;

  /// Writes as much of the parts as fits now; returns how many bytes, 0 when there is no room.
  virtual Result<std::size_t> write(std::span<const iovec> parts) = 0;
  /// Reads at most `into.size()` bytes; returns how many, 0 when there are none now, or none that the last
  /// read() did not leave: what has come since polls readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;

  /// How many of the bytes written are known to have reached the peer's host; 0 where nobody knows.
  virtual std::uint64_t delivered() const { return 0; }
  /// Bytes written that are still on their way there.
  virtual std::uint64_t undelivered() const { return 0; }
  /// Both ends are in one host. What has just come is then best sent on before the caches forget it.
  virtual bool shares_caches() const { return false; }
  /// Write no more than so many bytes of messages before reading again: where both ends share caches, who
  /// first writes all that goes finds what the peer wrote likewise gone from them.
  virtual std::uint64_t turn_bytes() const { return std::numeric_limits<std::uint64_t>::max(); }

  /// --- Waiting. -----------------------------------------------------------------------------------------
  /// True when read() and write() cost no system call, so that a spinning caller may try them in a loop;
  /// false when each try is one, as asking poll(2) on fd() is.
  virtual bool is_memory() const = 0;
  /// A descriptor that polls readable (POLLIN or POLLHUP) when an armed endpoint has something to do, and
  /// when the peer is gone. Stays the same for life; call drain() when it polled readable.
  virtual int fd() const = 0;
  /// Asks the peer to make fd() readable when bytes arrive, or, with `for_room`, when there is room to write
  /// (an endpoint that is not memory: poll fd() for POLLOUT instead). Returns false when there already is
  /// something to do; then do not sleep. disarm() after every arm().
  virtual bool arm(bool for_room) = 0;
  virtual void disarm() = 0;
  /// At least so many bytes are about to come: fd() need not poll readable before most of them, or enough to
  /// be worth waking for, are there. 0: there is no telling; every byte counts.
  virtual void expect(std::uint64_t /*bytes*/) {}
  /// Takes what woke us off fd(). A peer that has gone is noticed here or by the next read().
  virtual Status drain() = 0;

  /// --- Pulling: an endpoint that cannot leaves all of these as they are. ---------------------------------
  /// Whether this rank may read the peer's memory, as probed when connecting. Both sides answer the same.
  virtual bool can_pull() const { return false; }
  /// Sender: how the peer may name this memory. Sends the descriptor of a SharedMemory region along when the
  /// peer has not seen it. nullopt: push it through the stream.
  virtual std::optional<RemoteRange> expose(const void* /*data*/, std::size_t /*bytes*/) {
    return std::nullopt;
  }
  /// Receiver: the peer's memory in this address space, valid until the peer frees it; null when it is not
  /// mapped here (then fetch()).
  virtual Result<const std::byte*> map(const RemoteRange& /*range*/, std::size_t /*bytes*/) {
    return cannot_pull();
  }
  /// Receiver: copies from the peer's memory.
  virtual Status fetch(const RemoteRange& /*range*/, std::span<std::byte> /*into*/) { return cannot_pull(); }
  /// Sender: from now on nothing that was exposed may be believed. Takes effect at once, ahead of what is in
  /// the stream: a peer that pulls later, and then asks revoked(), learns of it. Receiver: true once the peer
  /// has revoked.
  virtual void revoke() {}
  virtual bool revoked() const { return false; }

  /// What this rank and the peer share as ranks of one host, for native algorithms; null where they share no
  /// memory. Lives as long as the endpoint.
  virtual Neighbour* neighbour() { return nullptr; }

 private:
  static Status cannot_pull() { return Status(Code::system, "no memory can be pulled over this endpoint"); }
};

}  // namespace kolo
