#include "transport/shm/notice.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket.hpp"

namespace kolo::transport::shm {

NoticeSocket::Sent NoticeSocket::send(const Notice& notice, std::span<const iovec> bytes, int descriptor) {
  iovec parts[1 + kMostParts] = {{const_cast<Notice*>(&notice), sizeof notice}};
  std::ranges::copy(bytes, parts + 1);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 1 + bytes.size();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Sent::yes;
    if (errno == EINTR) continue;
    // ETOOMANYREFS: too many descriptors in flight; temporary, as a full queue is.
    const bool full = net::would_block(errno) || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS;
    return full ? Sent::no_room : Sent::peer_gone;
  }
}

NoticeSocket::Received NoticeSocket::receive() {
  Received received;
  std::byte packet[sizeof(Notice) + Notice::kMostBytes + 1];
  iovec part{packet, sizeof packet};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  // ECONNRESET comes once, before the last notices of a peer that ended without reading all of its own.
  do {
    got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0 && net::would_block(errno)) return received;
  if (got <= 0) {
    received.what = Received::What::peer_gone;
    return received;
  }
  int descriptors = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i, ++descriptors) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      received.descriptor = UniqueFd(descriptor);  // all but the last are closed again
    }
  }
  const auto length = static_cast<std::size_t>(got);
  if (length >= sizeof(Notice)) std::memcpy(&received.notice, packet, sizeof(Notice));
  const NoticeKind kind = received.notice.kind;
  const bool has_bytes = kind == NoticeKind::bytes;
  const bool fits = has_bytes ? length > sizeof(Notice) && length < sizeof packet : length == sizeof(Notice);
  const bool sensible = fits && received.notice.magic == Notice::kMagic && kind >= NoticeKind::doorbell &&
                        kind <= NoticeKind::forget && descriptors <= 1 &&
                        ((message.msg_flags & MSG_CTRUNC) == 0 || descriptors == 0);
  received.what = sensible ? Received::What::notice : Received::What::nonsense;
  if (sensible && has_bytes) {
    received.count = length - sizeof(Notice);
    std::memcpy(received.bytes, packet + sizeof(Notice), received.count);
  }
  return received;
}

}  // namespace kolo::transport::shm
