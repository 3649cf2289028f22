#include "transport/shm/pairing.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "transport/shm/regions.hpp"

namespace kolo::transport::shm {
namespace {

Status gone() {
  return Status(Code::rendezvous, "it went away while connecting");
}

}  // namespace

Result<std::shared_ptr<OwnSegment>> OwnSegment::make() {
  auto fd = make_memfd("kolo-segment", sizeof(SharedSegment));
  if (!fd.ok()) return fd.status();
  const auto data = map_memfd(fd->get(), sizeof(SharedSegment), true);
  if (!data.ok()) return data.status();
  return std::make_shared<OwnSegment>(OwnSegment{std::move(*fd), SegmentMemory(data.value())});
}

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

Pairing::Pairing(UniqueFd socket, bool acceptor, std::shared_ptr<OwnSegment> own_segment,
                 std::span<const std::byte, sizeof(Notice::nonce)> nonce)
    : paired_{NoticeSocket(std::move(socket)), acceptor, -1, std::move(own_segment), {}, {}, false},
      expected_(acceptor ? NoticeKind::segment : NoticeKind::rings) {
  paired_.pid = peer_process(fd());
  if (acceptor) failure_ = make_rings();
  unsent_.push_back(
      {{.kind = NoticeKind::segment, .number = {sizeof(SharedSegment), 0}}, paired_.own_segment->fd.get()});
  Notice probe{.kind = NoticeKind::probe, .number = {reinterpret_cast<std::uintptr_t>(nonce.data()), 0}};
  std::memcpy(probe.nonce, nonce.data(), nonce.size());
  unsent_.push_back({probe});
}

Status Pairing::make_rings() {
  auto memfd = make_memfd("kolo-rings", RingMemory::kBytes);
  if (!memfd.ok()) return memfd.status();
  rings_ = std::move(*memfd);
  const auto data = map_memfd(rings_.get(), RingMemory::kBytes, true);
  if (!data.ok()) return data.status();
  paired_.memory = RingMemory(data.value());
  for (const int ring : {0, 1}) new (paired_.memory.control(ring)) RingControl{};
  unsent_.push_back({{.kind = NoticeKind::rings, .number = {RingMemory::kBytes, 0}}, rings_.get()});
  return {};
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
  if (!failure_.ok()) return failure_;
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
  if (expected_ == NoticeKind::rings) {
    const auto data = map_memfd(received.descriptor.get(), RingMemory::kBytes, true);
    if (!data.ok()) return data.status();
    paired_.memory = RingMemory(data.value());
    expected_ = NoticeKind::segment;
  } else if (expected_ == NoticeKind::segment) {
    const auto data = map_memfd(received.descriptor.get(), sizeof(SharedSegment), true);
    if (!data.ok()) return data.status();
    paired_.segment = SegmentMemory(data.value());
    expected_ = NoticeKind::probe;
  } else if (expected_ == NoticeKind::probe) {
    std::byte seen[sizeof notice.nonce];
    reads_ = paired_.pid > 0 && read_process(paired_.pid, notice.number[0], seen) == 0 &&
             std::memcmp(seen, notice.nonce, sizeof seen) == 0;
    unsent_.push_back({{.kind = NoticeKind::verdict, .number = {reads_ ? 1u : 0u, 0}}});
    expected_ = NoticeKind::verdict;
  } else {
    paired_.reads_private = reads_ && notice.number[0] == 1;
    is_complete_ = true;
  }
  return {};
}

}  // namespace kolo::transport::shm
