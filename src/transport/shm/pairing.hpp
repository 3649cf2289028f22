// Pairing: what two shm endpoints exchange over their authenticated socket before they can be used.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "transport/shm/host_memory.hpp"
#include "transport/shm/notice.hpp"

namespace kolo::transport::shm {

/// What an endpoint is made of.
struct Paired {
  NoticeSocket socket;
  pid_t pid = -1;                      ///< of the peer, from the kernel; 0 if it has no pid in this namespace
  std::shared_ptr<HostMemory> memory;  ///< of this rank
  std::size_t number = 0;              ///< the peer's, in that memory
  HostMemory::OfPeer of_peer;
  std::size_t number_there = 0;  ///< this rank's, in the peer's memory
  bool reads_private = false;    ///< both sides can read each other's memory with process_vm_readv
};

/// What both sides of an authenticated socket pass to each other before it is an endpoint: their memory, and
/// whether they can read each other's private memory. Used by one thread.
class Pairing {
 public:
  /// `number`: of the peer, in `memory`. `nonce` stays where it is until the peer has read it.
  Pairing(UniqueFd socket, std::shared_ptr<HostMemory> memory, std::size_t number,
          std::span<const std::byte, sizeof(Notice::nonce)> nonce);

  int fd() const { return paired_.socket.fd(); }
  /// Moves on as far as it can without waiting; true once it is complete.
  Result<bool> progress();
  /// The system takes no more notices or descriptors for now.
  bool waits_for_room() const { return !unsent_.empty(); }
  /// The result of a complete pairing.
  Paired take() { return std::move(paired_); }

 private:
  Status flush();
  Status take_in(const NoticeSocket::Received& received);

  struct Unsent {
    Notice notice;
    int descriptor = -1;
  };

  Paired paired_;
  std::deque<Unsent> unsent_;
  NoticeKind expected_ = NoticeKind::memory;
  bool reads_ = false;  ///< this side can read the other's memory
  bool is_complete_ = false;
};

/// Process id of the other end; 0 when unknown.
pid_t peer_process(int socket);

/// Reads another process's memory. errno as process_vm_readv(2); 0 on success.
int read_process(pid_t pid, std::uint64_t address, std::span<std::byte> into);

}  // namespace kolo::transport::shm
