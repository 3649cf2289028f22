#include "transport/shm/pairing.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "security/random.hpp"
#include "transport/shm/regions.hpp"

namespace kolo::shm {
namespace {

Status gone() {
  return Status(Code::rendezvous, "it went away while connecting");
}

/// Makes the rings and passes them on.
Status send_rings(Pairing& pairing) {
  auto memfd = make_memfd("kolo-rings", RingMemory::kBytes);
  if (!memfd.ok()) return memfd.status();
  const auto data = map_memfd(memfd->get(), RingMemory::kBytes, true);
  if (!data.ok()) return data.status();
  pairing.memory = RingMemory(data.value());
  for (const int ring : {0, 1}) new (pairing.memory.control(ring)) RingControl{};
  Notice notice{.kind = NoticeKind::rings, .number = {RingMemory::kBytes, 0}};
  return pairing.socket.send(notice, memfd->get()) == NoticeSocket::Sent::yes ? Status() : gone();
}

Status take_rings(Pairing& pairing, const Deadline& deadline) {
  const auto rings = pairing.socket.expect(NoticeKind::rings, deadline);
  if (!rings.ok()) return rings.status();
  const auto data = map_memfd(rings.value().descriptor.get(), RingMemory::kBytes, true);
  if (!data.ok()) return data.status();
  pairing.memory = RingMemory(data.value());
  return Status();
}

Status send_board(Pairing& pairing) {
  const Notice notice{.kind = NoticeKind::board, .number = {sizeof(Board), 0}};
  return pairing.socket.send(notice, pairing.own_board->fd.get()) == NoticeSocket::Sent::yes ? Status()
                                                                                             : gone();
}

Status take_board(Pairing& pairing, const Deadline& deadline) {
  const auto board = pairing.socket.expect(NoticeKind::board, deadline);
  if (!board.ok()) return board.status();
  const auto data = map_memfd(board.value().descriptor.get(), sizeof(Board), true);
  if (!data.ok()) return data.status();
  pairing.board = BoardMemory(data.value());
  return Status();
}

/// Whether this process can read the nonce where the peer says that it lies.
Result<bool> try_reading(Pairing& pairing, const Deadline& deadline) {
  const auto probe = pairing.socket.expect(NoticeKind::probe, deadline);
  if (!probe.ok()) return probe.status();
  const Notice& notice = probe.value().notice;
  std::byte seen[sizeof notice.nonce];
  return pairing.pid > 0 && read_process(pairing.pid, notice.number[0], seen) == 0 &&
         std::memcmp(seen, notice.nonce, sizeof seen) == 0;
}

}  // namespace

RingMemory::~RingMemory() {
  if (data_) ::munmap(data_, kBytes);
}

BoardMemory::~BoardMemory() {
  if (data_) ::munmap(data_, sizeof(Board));
}

Result<std::shared_ptr<OwnBoard>> OwnBoard::make() {
  auto fd = make_memfd("kolo-board", sizeof(Board));
  if (!fd.ok()) return fd.status();
  const auto data = map_memfd(fd->get(), sizeof(Board), true);
  if (!data.ok()) return data.status();
  return std::make_shared<OwnBoard>(OwnBoard{std::move(*fd), BoardMemory(data.value())});
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

std::vector<PairingFailure> settle(std::span<Pairing> pairings, const Deadline& deadline) {
  std::vector<PairingFailure> failures;
  std::vector<bool> failed(pairings.size(), false);
  std::vector<bool> reads(pairings.size(), false);
  const auto for_each = [&](const auto& step) {
    for (std::size_t i = 0; i < pairings.size(); ++i) {
      if (failed[i]) continue;
      if (Status status = step(i); !status.ok()) {
        failed[i] = true;
        failures.push_back({i, status.message()});
      }
    }
  };
  // Nobody waits before everything that others wait for is sent, so the order of the pairings does not
  // matter.
  std::byte nonce[sizeof(Notice::nonce)];
  fill_random(nonce);
  for_each([&](std::size_t i) {
    if (pairings[i].acceptor) {
      if (Status status = send_rings(pairings[i]); !status.ok()) return status;
    }
    if (Status status = send_board(pairings[i]); !status.ok()) return status;
    Notice probe{.kind = NoticeKind::probe, .number = {reinterpret_cast<std::uintptr_t>(nonce), 0}};
    std::memcpy(probe.nonce, nonce, sizeof nonce);
    return pairings[i].socket.send(probe) == NoticeSocket::Sent::yes ? Status() : gone();
  });
  for_each([&](std::size_t i) {
    if (!pairings[i].acceptor) {
      if (Status status = take_rings(pairings[i], deadline); !status.ok()) return status;
    }
    if (Status status = take_board(pairings[i], deadline); !status.ok()) return status;
    const auto read = try_reading(pairings[i], deadline);
    if (!read.ok()) return read.status();
    reads[i] = read.value();
    const Notice verdict{.kind = NoticeKind::verdict, .number = {reads[i] ? 1u : 0u, 0}};
    return pairings[i].socket.send(verdict) == NoticeSocket::Sent::yes ? Status() : gone();
  });
  for_each([&](std::size_t i) {
    const auto verdict = pairings[i].socket.expect(NoticeKind::verdict, deadline);
    if (!verdict.ok()) return verdict.status();
    pairings[i].reads_private = reads[i] && verdict.value().notice.number[0] == 1;
    return Status();
  });
  return failures;
}

}  // namespace kolo::shm
