#include "transport/tcp/endpoint.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/socket_options.hpp"
#include "base/would_block.hpp"
#include "transport/memory_fault.hpp"
#include "transport/tcp/address.hpp"

namespace kolo::tcp {
namespace {

/// A sleeper that is woken for every packet spends more time on waking than on the packet.
constexpr std::uint64_t kWorthWaking = 256 << 10;

std::optional<SocketAddress> address_of(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage));
}

std::string text_of(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  const auto address = address_of(ask, fd);
  return address ? address->text() : "?";
}

/// From 512 KiB to 2 MiB the fastest of long messages; less is slower for those of 1 MiB.
constexpr std::uint64_t kTurnInHost = 1 << 20;

/// Also between two addresses of this host's cards, if they are the same.
bool stays_in_host(int fd) {
  const auto own = address_of(::getsockname, fd);
  const auto peer = address_of(::getpeername, fd);
  return own && peer && (peer->is_loopback() || own->bytes() == peer->bytes());
}

/// Within a host there is no bottleneck to look for, but a congestion control that paces (BBR) does so even
/// there, and costs several times the copying. Reno is the one that every kernel has and lets anybody use.
void do_not_pace(int fd) {
  constexpr std::string_view kControl = "reno";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl.data(), kControl.size());
}

/// What a link that was down has lost is sent again after ever longer pauses, up to two minutes: one that was
/// down for a second may then be silent for longer than a heartbeat. Linux 6.15 and later let us say how long
/// the longest pause is, from a second on. The system then also gives a connection up sooner that takes
/// nothing: after some 13 such pauses, which with half a heartbeat is more than the four that a peer is given
/// behind a full link.
void send_again_within(int fd, std::chrono::nanoseconds heartbeat) {
  constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS, which older headers do not know
  constexpr int kPausesInHeartbeat = 2;
  if (heartbeat.count() == 0) return;
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat / kPausesInHeartbeat);
  set_option(fd, IPPROTO_TCP, kRtoMaxMs,
             static_cast<int>(std::clamp<std::int64_t>(pause.count(), 1000, 120'000)));
}

/// The system too looks after connections over which nothing moves, and gives them up half a minute after the
/// host has vanished; but never before the four heartbeats that a silent peer may take at most.
void probe_within(int fd, std::chrono::nanoseconds heartbeat) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(2);  // the system's own
  if (heartbeat.count() == 0) return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::min(heartbeat, kLongest)).count();
  if (seconds <= 5) return;
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(2 * seconds));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>((seconds + 1) / 2));
}

}  // namespace

TcpEndpoint::TcpEndpoint(UniqueFd socket)
    : socket_(std::move(socket)),
      description_("tcp " + text_of(::getsockname, socket_.get()) + " to " +
                   text_of(::getpeername, socket_.get())),
      stays_in_host_(stays_in_host(socket_.get())) {
  const int fd = socket_.get();
  tune_connection(fd);  // a Link already writes as much at a time as there is
  send_again_within(fd, config().heartbeat);
  probe_within(fd, config().heartbeat);
  if (stays_in_host_) do_not_pace(fd);
}

TcpEndpoint::~TcpEndpoint() {
  // Closing with unread bytes makes the kernel throw away what we wrote and is not sent yet: it may be the
  // reason for closing. So read them, at most as much as buffers hold.
  ::shutdown(socket_.get(), SHUT_WR);
  std::byte unread[64 << 10];
  for (std::size_t dropped = 0; dropped < 64u << 20;) {
    const ssize_t got = ::recv(socket_.get(), unread, sizeof unread, MSG_DONTWAIT);
    if (got <= 0) break;
    dropped += static_cast<std::size_t>(got);
  }
}

Status TcpEndpoint::lose(int error) {
  if (!lost_.ok()) return lost_;
  switch (error) {
    case 0:
    case EPIPE:
      lost_ = Status(Code::peer_lost, "connection closed by the peer");
      break;
    case ECONNRESET:
      lost_ = Status(Code::peer_lost, "connection reset by the peer");
      break;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      lost_ =
          Status(Code::peer_lost, std::string("the peer's host does not answer: ") + std::strerror(error));
      break;
    default:
      lost_ = Status::from_errno("socket", error);
  }
  return lost_;
}

Result<std::size_t> TcpEndpoint::write(std::span<const iovec> parts) {
  if (!lost_.ok()) return lost_;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  ssize_t sent;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    written_ += static_cast<std::uint64_t>(sent);
    return static_cast<std::size_t>(sent);
  }
  if (would_block(errno)) return std::size_t{0};
  if (errno != EFAULT) return lose(errno);
  // The peer waits for the rest of a message, of which it may have the header: it must not wait for ever.
  ::shutdown(socket_.get(), SHUT_WR);
  return lost_ = Status(kOwnMemoryFault, "what it sends cannot be read");
}

Result<std::size_t> TcpEndpoint::read(std::span<std::byte> into) {
  if (into.empty()) return std::size_t{0};
  // Who asks again at once spares the system call. What has come since then polls readable.
  if (std::exchange(took_all_, false) && lost_.ok()) return std::size_t{0};
  // Also after a failed write: the peer's last words may explain it.
  ssize_t got;
  do {
    got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  took_all_ = got > 0 && static_cast<std::size_t>(got) < into.size();
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return lose(0);
  if (would_block(errno)) return lost_.ok() ? Result<std::size_t>(std::size_t{0}) : lost_;
  if (errno == EFAULT) {  // nothing was taken from the stream
    return Status(kOwnMemoryFault, fmt::format("what it receives cannot be written to {}, {} bytes",
                                               static_cast<void*>(into.data()), into.size()));
  }
  return lose(errno);
}

/// Only read() notices a peer that has gone.
Status TcpEndpoint::drain() {
  took_all_ = false;
  return lost_;
}

void TcpEndpoint::expect(std::uint64_t bytes) {
  const int wanted = static_cast<int>(std::clamp<std::uint64_t>(bytes, 1, kWorthWaking));
  if (wanted == wakes_at_) return;
  wakes_at_ = wanted;
  set_option(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, wanted);
}

std::uint64_t TcpEndpoint::undelivered() const {
  int queued = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) return 0;
  return static_cast<std::uint64_t>(queued);
}

std::uint64_t TcpEndpoint::turn_bytes() const {
  return stays_in_host_ ? kTurnInHost : Endpoint::turn_bytes();
}

}  // namespace kolo::tcp
