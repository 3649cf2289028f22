// Pairing: what two shm endpoints exchange over their authenticated socket before they can be used.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "transport/byte_ring.hpp"
#include "transport/shared_segment.hpp"
#include "transport/shm/notice.hpp"

namespace kolo::transport::shm {

/// Bytes of each direction's ring. benchmarks/transport.cpp with 64 KiB to 1 MiB, on two busy cores: a 1 MiB
/// message costs its sender 150, 60, 46 and 36 us at 64, 256, 512 and 1024 KiB, because larger rings mean
/// fewer sleeps; each pair of ranks that talks pays for two.
inline constexpr std::size_t kRingBytes = 512 << 10;

template <std::size_t bytes>
struct Unmap {
  void operator()(std::byte* data) const { ::munmap(data, bytes); }
};

/// The memory of a pair's two rings, mapped. Ring 0 is written by the acceptor, ring 1 by the dialer.
class RingMemory {
 public:
  static constexpr std::size_t kControlBytes = 4096;
  static constexpr std::size_t kBytes = kControlBytes + 2 * kRingBytes;

  RingMemory() = default;
  explicit RingMemory(std::byte* data) : data_(data) {}

  RingControl* control(int ring) const { return reinterpret_cast<RingControl*>(data_.get()) + ring; }
  std::byte* data(int ring) const { return data_.get() + kControlBytes + ring * kRingBytes; }

 private:
  std::unique_ptr<std::byte, Unmap<kBytes>> data_;
};
static_assert(2 * sizeof(RingControl) <= RingMemory::kControlBytes);

/// A mapped SharedSegment.
class SegmentMemory {
 public:
  SegmentMemory() = default;
  /// Takes over what map_memfd() returned.
  explicit SegmentMemory(std::byte* data) : data_(data) {}

  SharedSegment* get() const { return std::launder(reinterpret_cast<SharedSegment*>(data_.get())); }

 private:
  std::unique_ptr<std::byte, Unmap<sizeof(SharedSegment)>> data_;
};

/// The segment of this rank, with the descriptor for its peers.
struct OwnSegment {
  UniqueFd fd;
  SegmentMemory memory;

  static Result<std::shared_ptr<OwnSegment>> make();
};

/// What an endpoint is made of.
struct Paired {
  NoticeSocket socket;
  bool acceptor = false;
  pid_t pid = -1;  ///< of the peer, from the kernel; 0 if it has no pid in this namespace
  std::shared_ptr<OwnSegment> own_segment;
  SegmentMemory segment;  ///< of the peer
  RingMemory memory;
  bool reads_private = false;  ///< both sides can read each other's memory with process_vm_readv
};

/// What both sides of an authenticated socket pass to each other before it is an endpoint: the rings, their
/// segments, and whether they can read each other's memory. Used by one thread.
class Pairing {
 public:
  /// `nonce` stays where it is until the peer has read it.
  Pairing(UniqueFd socket, bool acceptor, std::shared_ptr<OwnSegment> own_segment,
          std::span<const std::byte, sizeof(Notice::nonce)> nonce);

  int fd() const { return paired_.socket.fd(); }
  /// Moves on as far as it can without waiting; true once it is complete.
  Result<bool> progress();
  /// The system takes no more notices or descriptors for now.
  bool waits_for_room() const { return !unsent_.empty(); }
  /// The result of a complete pairing.
  Paired take() { return std::move(paired_); }

 private:
  Status make_rings();
  Status flush();
  Status take_in(const NoticeSocket::Received& received);

  struct Unsent {
    Notice notice;
    int descriptor = -1;
  };

  Paired paired_;
  UniqueFd rings_;
  std::deque<Unsent> unsent_;
  NoticeKind expected_;
  bool reads_ = false;  ///< this side can read the other's memory
  bool is_complete_ = false;
  Status failure_;
};

/// Process id of the other end; 0 when unknown.
pid_t peer_process(int socket);

/// Reads another process's memory. errno as process_vm_readv(2); 0 on success.
int read_process(pid_t pid, std::uint64_t address, std::span<std::byte> into);

}  // namespace kolo::transport::shm
