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

#include "net/socket.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::transport::tcp {
namespace {

/// Waking a sleeper for every packet costs more than the packet itself.
constexpr std::uint64_t kWorthWaking = 256 << 10;

std::string text_of(const std::optional<net::SocketAddress>& address) {
  return address ? address->text() : "?";
}

/// 512 KiB to 2 MiB are fastest for long messages; less is slower for messages of 1 MiB.
constexpr std::uint64_t kTurnInHost = 1 << 20;

/// True also between two processes that use the address of the same network card.
bool stays_in_host(int fd) {
  const auto own = net::SocketAddress::local(fd);
  const auto peer = net::SocketAddress::remote(fd);
  return own && peer && (peer->is_loopback() || own->bytes() == peer->bytes());
}

/// Within a host there is no bottleneck to find. But a congestion control that paces (BBR) paces even there,
/// which costs several times the copying. Every kernel has Reno and lets any user choose it.
void do_not_pace(int fd) {
  constexpr std::string_view kControl = "reno";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl.data(), kControl.size());
}

/// Limits the bytes of a connection that wait in this host to be sent: a message is finished when most of it
/// has been sent. Without a limit 4 MiB wait, and the messages of the next round leave among them. A smaller
/// limit wakes the rank more often.
void limit_unsent_bytes(int fd) {
  constexpr int kUnsentBytes = 64 << 10;
  net::set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

/// Limits the pauses between retransmissions. Without a limit they grow up to two minutes, and a link that
/// was down for a second may be silent for longer than a heartbeat. Linux 6.15 and later let a program set
/// the longest pause, from one second up. The system then also gives up sooner a connection that takes no
/// data: after some 13 such pauses. With pauses of half a heartbeat that is more than the four heartbeats
/// that a peer is given behind a full link.
void send_again_within(int fd, std::chrono::nanoseconds heartbeat) {
  constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS, which older headers do not know
  constexpr int kPausesInHeartbeat = 2;
  if (heartbeat.count() == 0) return;
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat / kPausesInHeartbeat);
  net::set_option(fd, IPPROTO_TCP, kRtoMaxMs,
                  static_cast<int>(std::clamp<std::int64_t>(pause.count(), 1000, 120'000)));
}

/// Sets the system's own keep-alive probes. They end an idle connection half a minute after the host has
/// vanished, but never before the four heartbeats that a silent peer may take at most.
void probe_within(int fd, std::chrono::nanoseconds heartbeat) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(2);  // the system's own interval
  if (heartbeat.count() == 0) return net::set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::min(heartbeat, kLongest)).count();
  if (seconds <= 5) return;
  net::set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(2 * seconds));
  net::set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>((seconds + 1) / 2));
}

}  // namespace

TcpEndpoint::TcpEndpoint(UniqueFd socket, std::chrono::nanoseconds heartbeat)
    : socket_(std::move(socket)),
      description_("tcp " + text_of(net::SocketAddress::local(socket_.get())) + " to " +
                   text_of(net::SocketAddress::remote(socket_.get()))),
      stays_in_host_(stays_in_host(socket_.get())) {
  const int fd = socket_.get();
  net::tune_connection(fd);  // without delay: a Link already writes as much at a time as there is
  send_again_within(fd, heartbeat);
  probe_within(fd, heartbeat);
  if (stays_in_host_) {
    do_not_pace(fd);
  } else {
    limit_unsent_bytes(fd);
  }
}

TcpEndpoint::~TcpEndpoint() {
  // If unread bytes remain at close, the kernel discards what this side wrote and has not sent. That may be
  // the reason for closing. So read them first, at most as much as buffers hold.
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
      lost_ = Status(Code::peer_lost, "Connection closed by peer");
      break;
    case ECONNRESET:
      lost_ = Status(Code::peer_lost, "Read error: connection reset by peer");
      break;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      lost_ = Status(Code::timeout,
                     std::string("Read error: the peer's host does not answer: ") + std::strerror(error));
      break;
    default:
      lost_ = Status::from_errno("Read error", error);
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
  if (net::would_block(errno)) return std::size_t{0};
  if (errno != EFAULT) return lose(errno);
  // The peer may have the header of this message and must not wait for the rest for ever.
  ::shutdown(socket_.get(), SHUT_WR);
  return lost_ = Status(kOwnMemoryFault, "what it sends cannot be read");
}

Result<std::size_t> TcpEndpoint::read(std::span<std::byte> into) {
  if (into.empty()) return std::size_t{0};
  // The call after a short read saves a system call. Bytes that have come since then poll readable.
  if (std::exchange(took_all_, false) && lost_.ok()) return std::size_t{0};
  // Reads also after a failed write: what the peer sent last may explain it.
  ssize_t got;
  do {
    got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  took_all_ = got > 0 && static_cast<std::size_t>(got) < into.size();
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return lose(0);
  if (net::would_block(errno)) return lost_.ok() ? Result<std::size_t>(std::size_t{0}) : lost_;
  if (errno == EFAULT) {  // nothing was taken from the stream
    return Status(kOwnMemoryFault, fmt::format("what it receives cannot be written to {}, {} bytes",
                                               static_cast<void*>(into.data()), into.size()));
  }
  return lose(errno);
}

/// read() is what notices that the peer is gone.
Status TcpEndpoint::drain() {
  took_all_ = false;
  return lost_;
}

void TcpEndpoint::expect(std::uint64_t bytes) {
  const int wanted = static_cast<int>(std::clamp<std::uint64_t>(bytes, 1, kWorthWaking));
  if (wanted == wakes_at_) return;
  wakes_at_ = wanted;
  net::set_option(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, wanted);
}

std::uint64_t TcpEndpoint::undelivered() const {
  int queued = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) return 0;
  return static_cast<std::uint64_t>(queued);
}

std::uint64_t TcpEndpoint::write_budget() const {
  return stays_in_host_ ? kTurnInHost : Endpoint::write_budget();
}

}  // namespace kolo::transport::tcp
