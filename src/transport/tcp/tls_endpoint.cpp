#include "transport/tcp/tls_endpoint.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kolo::transport::tcp {
namespace {

/// Encrypted before it is sent in one call; fits in a core's own cache.
constexpr std::size_t kSealBytes = 8 * net::TlsStream::kRecordBytes;
/// Received in one call.
constexpr std::size_t kInputBytes = 128 << 10;
/// Limit of one write(), so that reading gets its turn.
constexpr std::size_t kWriteBytes = 1 << 20;

std::size_t size_of(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

/// Whether one of the parts begins `offset` bytes behind the beginning of the first one.
bool part_begins_at(std::span<const iovec> parts, std::size_t offset) {
  std::size_t at = 0;
  for (const iovec& part : parts) {
    if (at == offset) return true;
    at += part.iov_len;
  }
  return false;
}

}  // namespace

TlsEndpoint::TlsEndpoint(std::unique_ptr<Endpoint> wire, const net::Tls& tls, bool dialer, std::string secret)
    : wire_(std::move(wire)),
      tls_(tls, dialer, std::move(secret), kInputBytes),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      record_(net::TlsStream::kRecordBytes) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (!poll_.valid() || ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wire_->fd(), &event) != 0) {
    lost_ = Status::from_errno("epoll", errno);
  }
}

void TlsEndpoint::watch(bool room) {
  if (room == watches_room_) return;
  watches_room_ = room;
  epoll_event event{};
  event.events = EPOLLIN | (room ? EPOLLOUT : 0u);
  ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, wire_->fd(), &event);
}

Result<bool> TlsEndpoint::set_up() {
  std::byte nothing[1];
  if (auto read_some = read(std::span(nothing).first(0)); !read_some.ok()) return read_some.status();
  return tls_.ready() && tls_.output().empty();
}

Status TlsEndpoint::flush() {
  std::string& output = tls_.output();
  while (sent_ < output.size()) {
    const iovec part{output.data() + sent_, output.size() - sent_};
    auto wrote = wire_->write({&part, 1});
    if (!wrote.ok()) return lost_ = wrote.status();
    if (*wrote == 0) return {};
    sent_ += *wrote;
  }
  output.clear();
  sent_ = 0;
  return {};
}

/// Seals at most `most` bytes of what follows the first `skip` bytes of the parts. Short parts share records.
Status TlsEndpoint::seal(std::span<const iovec> parts, std::size_t skip, std::size_t most,
                         std::size_t& sealed) {
  sealed = 0;
  std::size_t gathered = 0;
  for (const iovec& part : parts) {
    const std::size_t passed = std::min(skip, part.iov_len);
    skip -= passed;
    auto rest = std::span(static_cast<const std::byte*>(part.iov_base), part.iov_len).subspan(passed);
    rest = rest.first(std::min(rest.size(), most - sealed));
    sealed += rest.size();
    while (!rest.empty()) {
      std::size_t size = std::min(rest.size(), net::TlsStream::kRecordBytes - gathered);
      if (gathered == 0 && size == net::TlsStream::kRecordBytes) {
        if (Status status = tls_.seal(rest.first(size)); !status.ok()) return status;
      } else {
        std::memcpy(record_.data() + gathered, rest.data(), size);
        gathered += size;
        if (gathered == net::TlsStream::kRecordBytes) {
          if (Status status = tls_.seal(record_); !status.ok()) return status;
          gathered = 0;
        }
      }
      rest = rest.subspan(size);
    }
  }
  return tls_.seal(std::span(record_).first(gathered));
}

/// Encrypted bytes cannot be taken back, but the socket may not take them all yet. While some of them have
/// not left, their last byte is reported as not written. So the caller still has something to write and comes
/// back, and no other code need remember that this endpoint owes bytes. The byte held back is never the first
/// byte of a part, because a caller may change its mind about a part that it has not begun.
Result<std::size_t> TlsEndpoint::write(std::span<const iovec> parts) {
  if (!lost_.ok()) return lost_;
  if (Status status = flush(); !status.ok()) return status;
  if (!tls_.output().empty()) return std::size_t{0};
  if (!tls_.ready()) {
    const auto secured = set_up();
    return secured.ok() ? Result<std::size_t>(std::size_t{0}) : secured.status();
  }
  const std::size_t whole = std::min(size_of(parts), kWriteBytes);
  std::size_t done = std::exchange(held_, 0);
  while (done < whole && tls_.output().empty()) {
    std::size_t sealed = 0;
    Status status = seal(parts, done, std::min(whole - done, kSealBytes), sealed);
    if (status.ok()) status = flush();
    if (!status.ok()) return lost_ = status;
    done += sealed;
  }
  if (!tls_.output().empty() && done > 0)
    held_ = std::min<std::size_t>(done, part_begins_at(parts, done - 1) ? 2 : 1);
  return done - held_;
}

Result<std::size_t> TlsEndpoint::read(std::span<std::byte> into) {
  std::size_t done = 0;
  for (;;) {
    const bool was_ready = tls_.ready();
    auto opened = tls_.open(into.subspan(done));
    if (!was_ready) {  // the TLS handshake has replies to send
      if (Status status = flush(); !status.ok()) return status;
    }
    if (!opened.ok()) {
      if (done > 0) return done;
      return lost_ = opened.status();
    }
    done += *opened;
    if (done == into.size() && (done > 0 || tls_.ready())) return done;
    auto space = tls_.space();
    if (space.empty()) return done;  // cannot happen: open() uses up all input before it stops
    auto got = wire_->read(space);
    if (!got.ok()) return done > 0 ? Result<std::size_t>(done) : lost_ = got.status();
    if (*got == 0) return done > 0 || lost_.ok() ? Result<std::size_t>(done) : lost_;
    tls_.filled(*got);
  }
}

bool TlsEndpoint::arm(bool for_room) {
  if (holds_input()) return false;
  watch((for_room && tls_.ready()) || !tls_.output().empty());
  return wire_->arm(for_room);
}

Status TlsEndpoint::drain() {
  if (Status status = wire_->drain(); !status.ok()) return status;
  return lost_;
}

}  // namespace kolo::transport::tcp
