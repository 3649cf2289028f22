// HostMemory: what a rank and the peers of its host give each other to map: flags, segments, rings of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "transport/byte_ring.hpp"
#include "transport/shm/mail_flags.hpp"

namespace kolo::transport::shm {

/// Bytes of each direction's ring. benchmarks/transport.cpp with 64 KiB to 1 MiB, on two busy cores: a 1 MiB
/// message costs its sender 150, 60, 46 and 36 us at 64, 256, 512 and 1024 KiB, because larger rings mean
/// fewer sleeps; each pair of ranks that talks pays for two.
inline constexpr std::size_t kRingBytes = 512 << 10;

/// Where a ring is. Its bytes follow its control at once, so short messages touch one page.
class RingPlace {
 public:
  static constexpr std::size_t kBytes = sizeof(RingControl) + kRingBytes;

  RingPlace() = default;
  explicit RingPlace(std::byte* at) : at_(at) {}

  RingControl* control() const { return reinterpret_cast<RingControl*>(at_); }
  std::byte* data() const { return at_ + sizeof(RingControl); }

 private:
  std::byte* at_ = nullptr;
};

/// One memfd of each rank holds its mail flags, its segment and, for each of its peers, the ring in which it
/// writes to that peer. Pages exist from the first use on. So most pairs, which exchange little, cost
/// addresses and no memory. Used by one thread.
class HostMemory {
 public:
  /// For a rank with so many peers on its host. They are numbered from 0 on, by this rank. `segment_bytes`:
  /// as in TransportOptions.
  static Result<std::shared_ptr<HostMemory>> make(std::size_t peers, std::size_t segment_bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  int fd() const { return fd_.get(); }
  std::size_t bytes() const { return bytes_; }
  MailFlags& mail() const { return mail_in(own_); }
  std::span<std::byte> segment() const { return segment_in(own_); }
  RingPlace ring_to(std::size_t peer) const;

  /// What a peer gives this rank. Mapped until the HostMemory is destroyed, or until the same peer gives it
  /// again.
  struct OfPeer {
    MailFlags* mail = nullptr;
    std::span<std::byte> segment;
    RingPlace ring;  ///< in which the peer writes to this rank
  };
  /// Maps the peer's memfd of `bytes` bytes, where this rank has the number `number_there`. The peer's
  /// segment has the size of this rank's.
  Result<OfPeer> map(std::size_t peer, int fd, std::uint64_t bytes, std::uint64_t number_there) const;

 private:
  HostMemory(UniqueFd fd, std::size_t bytes, std::byte* own, std::size_t segment_bytes);

  Status reserve(std::size_t peers);
  std::size_t ring_at(std::size_t number) const;
  std::size_t peer_bytes() const;
  static MailFlags& mail_in(std::byte* memory);
  std::span<std::byte> segment_in(std::byte* memory) const;

  UniqueFd fd_;
  std::size_t bytes_;
  std::byte* own_;
  std::size_t segment_bytes_;      // of each rank
  std::byte* reserved_ = nullptr;  // addresses for all peers, taken at once
  std::size_t reserved_bytes_ = 0;
  std::byte* of_peers_ = nullptr;  // the first of them that is a multiple of kHugePage
};

}  // namespace kolo::transport::shm
