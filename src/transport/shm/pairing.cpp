#include "transport/shm/pairing.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "net/random.hpp"
#include "transport/shm/regions.hpp"

namespace kolo::shm {
namespace {

constexpr int kLookMs = 5;

Status gone() {
  return Status(Code::rendezvous, "it went away while connecting");
}

/// All pairings of a rank, served one at a time. Descriptors in flight between processes count against their
/// user's RLIMIT_NOFILE (except for root) until they are received. So a waiting rank takes in what has come
/// from all peers. Otherwise ranks could wait for ever for each other's room.
class Settling {
 public:
  Settling(std::span<Pairing> pairings, StoppedProcesses& stopped, const Deadline& deadline)
      : pairings_(pairings), stopped_(stopped), deadline_(deadline) {}

  Status send(Pairing& to, const Notice& notice, int descriptor = -1) {
    for (;;) {
      const NoticeSocket::Sent sent = to.socket.send(notice, descriptor);
      if (sent == NoticeSocket::Sent::yes) return Status();
      if (sent == NoticeSocket::Sent::peer_gone) return gone();
      if (Status lost = look_at(to); !lost.ok()) return lost;
      if (deadline_.passed())
        return Status(Code::rendezvous,
                      "this user's processes pass on too many descriptors; raise ulimit -n");
      take_in_all();
      ::poll(nullptr, 0, 1);
    }
  }

  /// Waits for the next notice, which must be of `kind`.
  Result<NoticeSocket::Received> expect(Pairing& from, NoticeKind kind) {
    for (;;) {
      NoticeSocket::Received received = from.socket.receive();
      switch (received.what) {
        case NoticeSocket::Received::What::notice:
          if (received.notice.kind == kind) return received;
          return Status(Code::rendezvous, "it says something unexpected");
        case NoticeSocket::Received::What::nonsense:
          return Status(Code::rendezvous, "it talks nonsense");
        case NoticeSocket::Received::What::peer_gone:
          return gone();
        case NoticeSocket::Received::What::nothing:
          break;
      }
      if (Status lost = look_at(from); !lost.ok()) return lost;
      if (deadline_.passed()) return Status(Code::rendezvous, "it does not go on connecting");
      pollfd entry{from.socket.fd(), POLLIN, 0};
      if (::poll(&entry, 1, std::min(deadline_.left_ms(), kLookMs)) == 0) take_in_all();
    }
  }

  /// Makes the rings and passes their descriptor on.
  Status send_rings(Pairing& to) {
    auto memfd = make_memfd("kolo-rings", RingMemory::kBytes);
    if (!memfd.ok()) return memfd.status();
    const auto data = map_memfd(memfd->get(), RingMemory::kBytes, true);
    if (!data.ok()) return data.status();
    to.memory = RingMemory(data.value());
    for (const int ring : {0, 1}) new (to.memory.control(ring)) RingControl{};
    return send(to, {.kind = NoticeKind::rings, .number = {RingMemory::kBytes, 0}}, memfd->get());
  }

  Status take_rings(Pairing& from) {
    const auto rings = expect(from, NoticeKind::rings);
    if (!rings.ok()) return rings.status();
    const auto data = map_memfd(rings.value().descriptor.get(), RingMemory::kBytes, true);
    if (!data.ok()) return data.status();
    from.memory = RingMemory(data.value());
    return Status();
  }

  Status send_board(Pairing& to) {
    return send(to, {.kind = NoticeKind::segment, .number = {sizeof(SharedSegment), 0}},
                to.own_segment->fd.get());
  }

  Status take_board(Pairing& from) {
    const auto segment = expect(from, NoticeKind::segment);
    if (!segment.ok()) return segment.status();
    const auto data = map_memfd(segment.value().descriptor.get(), sizeof(SharedSegment), true);
    if (!data.ok()) return data.status();
    from.segment = SegmentMemory(data.value());
    return Status();
  }

  /// Whether this process can read the nonce at the address that the peer named.
  Result<bool> try_reading(Pairing& from) {
    const auto probe = expect(from, NoticeKind::probe);
    if (!probe.ok()) return probe.status();
    const Notice& notice = probe.value().notice;
    std::byte seen[sizeof notice.nonce];
    return from.pid > 0 && read_process(from.pid, notice.number[0], seen) == 0 &&
           std::memcmp(seen, notice.nonce, sizeof seen) == 0;
  }

 private:
  void take_in_all() {
    for (Pairing& pairing : pairings_) pairing.socket.take_in();
  }

  Status look_at(const Pairing& peer) {
    std::string why = stopped_.why_lost(peer.pid);
    return why.empty() ? Status() : Status(Code::rendezvous, std::move(why));
  }

  std::span<Pairing> pairings_;
  StoppedProcesses& stopped_;
  const Deadline& deadline_;
};

}  // namespace

RingMemory::~RingMemory() {
  if (data_) ::munmap(data_, kBytes);
}

SegmentMemory::~SegmentMemory() {
  if (data_) ::munmap(data_, sizeof(SharedSegment));
}

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

std::vector<PairingFailure> settle(std::span<Pairing> pairings, StoppedProcesses& stopped,
                                   const Deadline& deadline) {
  std::vector<PairingFailure> failures;
  std::vector<bool> failed(pairings.size(), false);
  std::vector<bool> reads(pairings.size(), false);
  Settling settling(pairings, stopped, deadline);
  const auto for_each = [&](const auto& step) {
    for (std::size_t i = 0; i < pairings.size(); ++i) {
      if (failed[i]) continue;
      if (Status status = step(i); !status.ok()) {
        failed[i] = true;
        failures.push_back({i, status.message()});
      }
    }
  };
  // Each rank sends everything that its peers wait for before it waits itself, so the order of the pairings
  // does not matter.
  std::byte nonce[sizeof(Notice::nonce)];
  fill_random(nonce);
  for_each([&](std::size_t i) {
    if (pairings[i].acceptor) {
      if (Status status = settling.send_rings(pairings[i]); !status.ok()) return status;
    }
    if (Status status = settling.send_board(pairings[i]); !status.ok()) return status;
    Notice probe{.kind = NoticeKind::probe, .number = {reinterpret_cast<std::uintptr_t>(nonce), 0}};
    std::memcpy(probe.nonce, nonce, sizeof nonce);
    return settling.send(pairings[i], probe);
  });
  for_each([&](std::size_t i) {
    if (!pairings[i].acceptor) {
      if (Status status = settling.take_rings(pairings[i]); !status.ok()) return status;
    }
    if (Status status = settling.take_board(pairings[i]); !status.ok()) return status;
    const auto read = settling.try_reading(pairings[i]);
    if (!read.ok()) return read.status();
    reads[i] = read.value();
    const Notice verdict{.kind = NoticeKind::verdict, .number = {reads[i] ? 1u : 0u, 0}};
    return settling.send(pairings[i], verdict);
  });
  for_each([&](std::size_t i) {
    const auto verdict = settling.expect(pairings[i], NoticeKind::verdict);
    if (!verdict.ok()) return verdict.status();
    pairings[i].reads_private = reads[i] && verdict.value().notice.number[0] == 1;
    return Status();
  });
  return failures;
}

}  // namespace kolo::shm
