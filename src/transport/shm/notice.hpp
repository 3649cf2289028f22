// Notices: short out-of-band messages between a pair of shm endpoints, over their Unix socket.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::transport::shm {

enum class NoticeKind : std::uint32_t {
  doorbell = 1,  ///< read the ring
  memory = 2,    ///< the memfd of the sender's HostMemory, of number[0] bytes, in which the receiver has the
                 ///< number number[1]; number[2] is an address in the sender's process, which holds `nonce`;
                 ///< the segment has number[3] bytes
  verdict = 3,   ///< number[0]: 1 when the sender could read the receiver's nonce, else 0
  bytes = 4,     ///< the first bytes of the stream follow
  ring = 5,      ///< all further bytes of the stream are in the sender's ring
  closed = 6,    ///< the sender has closed its end, and has not used its ring
  region = 7,    ///< the memfd of region number[0] with number[1] bytes
  forget = 8,    ///< region number[0] has been freed
};

/// One packet. Travels between processes of one machine.
struct Notice {
  static constexpr std::uint32_t kMagic = 0x6b6f6c6f;
  /// The most bytes that may follow one of kind `bytes`.
  static constexpr std::size_t kMostBytes = 1024;

  std::uint32_t magic = kMagic;
  NoticeKind kind = NoticeKind::doorbell;
  std::uint64_t number[4] = {0, 0, 0, 0};
  std::byte nonce[32] = {};
};

/// One end of a connected SOCK_SEQPACKET socket. One thread at a time.
class NoticeSocket {
 public:
  explicit NoticeSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  enum class Sent { yes, no_room, peer_gone };
  /// Passes `descriptor` along unless it is negative. Does not block.
  Sent send(const Notice& notice, int descriptor = -1) { return send(notice, {}, descriptor); }
  /// A notice with `bytes` behind it, in at most `kMostParts` parts.
  static constexpr std::size_t kMostParts = 16;
  Sent send(const Notice& notice, std::span<const iovec> bytes, int descriptor = -1);

  struct Received {
    enum class What { nothing, notice, nonsense, peer_gone } what = What::nothing;
    Notice notice;
    UniqueFd descriptor;    ///< none if the sender passed none, or if this process has no room for it
    std::size_t count = 0;  ///< of `bytes`
    std::byte bytes[Notice::kMostBytes];
  };
  /// The next notice, if there is one. Does not block.
  Received receive();

 private:
  UniqueFd fd_;
};

}  // namespace kolo::transport::shm
