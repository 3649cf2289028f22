#include "transport/shm/pairing.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace kolo::transport::shm {
namespace {

Status gone() {
  return Status(Code::rendezvous, "it went away while connecting");
}

}  // namespace

pid_t peer_process(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 ? credentials.pid : 0;
}

int read_process(pid_t pid, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec local{into.data(), into.size()};
    const iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (got == 0) return EFAULT;
    into = into.subspan(static_cast<std::size_t>(got));
    address += static_cast<std::uint64_t>(got);
  }
  return 0;
}

Pairing::Pairing(UniqueFd socket, std::shared_ptr<HostMemory> memory, std::size_t number,
                 std::span<const std::byte, sizeof(Notice::nonce)> nonce)
    : paired_{NoticeSocket(std::move(socket)), -1, std::move(memory), number, {}, 0, false} {
  paired_.pid = peer_process(fd());
  Notice notice{.kind = NoticeKind::memory,
                .number = {paired_.memory->bytes(), number, reinterpret_cast<std::uintptr_t>(nonce.data()),
                           paired_.memory->segment().size()}};
  std::memcpy(notice.nonce, nonce.data(), nonce.size());
  unsent_.push_back({notice, paired_.memory->fd()});
}

Status Pairing::flush() {
  while (!unsent_.empty()) {
    const auto sent = paired_.socket.send(unsent_.front().notice, unsent_.front().descriptor);
    if (sent == NoticeSocket::Sent::peer_gone) return gone();
    if (sent == NoticeSocket::Sent::no_room) break;
    unsent_.pop_front();
  }
  return {};
}

/// What comes behind the verdict stays in the socket, for the endpoint.
Result<bool> Pairing::progress() {
  for (;;) {
    if (Status status = flush(); !status.ok()) return status;
    if (is_complete_) return unsent_.empty();
    const NoticeSocket::Received received = paired_.socket.receive();
    using What = NoticeSocket::Received::What;
    if (received.what == What::nothing) return false;
    if (received.what == What::peer_gone) return gone();
    if (received.what == What::nonsense) return Status(Code::rendezvous, "it talks nonsense");
    if (received.notice.kind != expected_) return Status(Code::rendezvous, "it says something unexpected");
    if (Status status = take_in(received); !status.ok()) return status;
  }
}

Status Pairing::take_in(const NoticeSocket::Received& received) {
  const Notice& notice = received.notice;
  if (expected_ == NoticeKind::verdict) {
    paired_.reads_private = reads_ && notice.number[0] == 1;
    is_complete_ = true;
    return {};
  }
  if (const std::size_t own = paired_.memory->segment().size(); notice.number[3] != own) {
    return Status(Code::rendezvous, fmt::format("its shared segment has {} bytes, and this rank's has {}",
                                                notice.number[3], own));
  }
  const auto mapped =
      paired_.memory->map(paired_.number, received.descriptor.get(), notice.number[0], notice.number[1]);
  if (!mapped.ok()) return mapped.status();
  paired_.of_peer = *mapped;
  paired_.number_there = notice.number[1];
  std::byte seen[sizeof notice.nonce];
  reads_ = paired_.pid > 0 && read_process(paired_.pid, notice.number[2], seen) == 0 &&
           std::memcmp(seen, notice.nonce, sizeof seen) == 0;
  unsent_.push_back({{.kind = NoticeKind::verdict, .number = {reads_ ? 1u : 0u}}});
  expected_ = NoticeKind::verdict;
  return {};
}

}  // namespace kolo::transport::shm
