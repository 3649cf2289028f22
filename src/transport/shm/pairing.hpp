// Pairing: what two shm endpoints settle over their socket, once it is authenticated, before they can be
// used.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "transport/board.hpp"
#include "transport/byte_ring.hpp"
#include "transport/shm/notice.hpp"
#include "transport/shm/stopped.hpp"

namespace kolo::shm {

/// Bytes of each direction's ring. bench/transport.cpp with 64 KiB to 1 MiB, on two busy cores: a 1 MiB
/// message costs its sender 150, 60, 46 and 36 us at 64, 256, 512 and 1024 KiB, because larger rings mean
/// fewer sleeps; each pair of ranks that talks pays for two.
inline constexpr std::size_t kRingBytes = 512 << 10;

/// The memory of a pair's two rings, mapped. Ring 0 is written by the acceptor, ring 1 by the dialer.
class RingMemory {
 public:
  static constexpr std::size_t kControlBytes = 4096;
  static constexpr std::size_t kBytes = kControlBytes + 2 * kRingBytes;

  RingMemory() = default;
  explicit RingMemory(std::byte* data) : data_(data) {}
  RingMemory(RingMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  RingMemory& operator=(RingMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~RingMemory();

  RingControl* control(int ring) const { return reinterpret_cast<RingControl*>(data_) + ring; }
  std::byte* data(int ring) const { return data_ + kControlBytes + ring * kRingBytes; }

 private:
  std::byte* data_ = nullptr;
};
static_assert(2 * sizeof(RingControl) <= RingMemory::kControlBytes);

/// A Board, mapped.
class BoardMemory {
 public:
  BoardMemory() = default;
  /// Takes over what map_memfd() returned.
  explicit BoardMemory(std::byte* data) : data_(data) {}
  BoardMemory(BoardMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  BoardMemory& operator=(BoardMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~BoardMemory();

  Board* get() const { return std::launder(reinterpret_cast<Board*>(data_)); }

 private:
  std::byte* data_ = nullptr;
};

/// The board of this rank, with the descriptor that its peers need.
struct OwnBoard {
  UniqueFd fd;
  BoardMemory memory;

  static Result<std::shared_ptr<OwnBoard>> make();
};

struct Pairing {
  NoticeSocket socket;
  bool acceptor = false;
  pid_t pid = -1;  ///< of the peer, as the kernel says; 0 when it has none here
  std::shared_ptr<OwnBoard> own_board;
  BoardMemory board;  ///< of the peer
  RingMemory memory;
  bool reads_private = false;  ///< both may read each other's memory with process_vm_readv
};

/// Settles all pairings of a rank at once. Their other sides must do the same at the same time. On failure
/// the entry for the rank (by index) to blame, with what is known.
struct PairingFailure {
  std::size_t index;
  std::string known;
};
std::vector<PairingFailure> settle(std::span<Pairing> pairings, StoppedProcesses& stopped,
                                   const Deadline& deadline);

/// Process id of the other end; 0 when unknown.
pid_t peer_process(int socket);

/// Reads another process's memory. errno as process_vm_readv(2); 0 on success.
int read_process(pid_t pid, std::uint64_t address, std::span<std::byte> into);

}  // namespace kolo::shm
