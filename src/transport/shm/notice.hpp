// Notices: short out-of-band messages between a pair of shm endpoints, over their Unix socket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::transport::shm {

enum class NoticeKind : std::uint32_t {
  doorbell = 1,  ///< read the rings
  rings = 2,     ///< acceptor to dialer: the memfd that holds the rings; number[0] is its size
  probe = 3,     ///< number[0] is an address in the sender's memory, which holds `nonce`
  verdict = 4,   ///< number[0]: 1 when the sender could read the receiver's nonce, else 0
  region = 5,    ///< the memfd of region number[0] with number[1] bytes
  forget = 6,    ///< region number[0] has been freed
  segment = 7,   ///< the memfd of the sender's SharedSegment; number[0] is its size
};

/// One packet. Travels between processes of one machine.
struct Notice {
  static constexpr std::uint32_t kMagic = 0x6b6f6c6f;

  std::uint32_t magic = kMagic;
  NoticeKind kind = NoticeKind::doorbell;
  std::uint64_t number[2] = {0, 0};
  std::byte nonce[32] = {};
};

/// One end of a connected SOCK_SEQPACKET socket. One thread at a time.
class NoticeSocket {
 public:
  explicit NoticeSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  enum class Sent { yes, no_room, peer_gone };
  /// Passes `descriptor` along unless it is negative. Does not block.
  Sent send(const Notice& notice, int descriptor = -1);

  struct Received {
    enum class What { nothing, notice, nonsense, peer_gone } what = What::nothing;
    Notice notice;
    UniqueFd descriptor;  ///< none if the sender passed none, or if this process has no room for it
  };
  /// The next notice, if there is one. Does not block.
  Received receive();

 private:
  UniqueFd fd_;
};

}  // namespace kolo::transport::shm
