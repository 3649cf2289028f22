#include "net/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace kolo::net {
namespace {

/// A client that keeps dialling a free port of its own host may get that very port as its own and so connect
/// to itself. This also takes the port from the server that the client waits for.
bool reached_itself(int fd) {
  const auto here = SocketAddress::local(fd), there = SocketAddress::remote(fd);
  return here && there && *here == *there;
}

/// Waits for the events; Code::timeout at the deadline.
Status await(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Status::from_errno("poll", errno);
    if (deadline.passed()) return Status(Code::timeout, "no answer in time");
  }
}

Status lost(int error_number) {
  if (error_number == 0) return Status(Code::peer_lost, "the connection was closed");
  return Status(Code::peer_lost, Status::from_errno("the connection broke", error_number).message());
}

}  // namespace

int call_with_abstract_address(int (*function)(int, const sockaddr*, socklen_t), int fd,
                               std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto address_length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return function(fd, reinterpret_cast<const sockaddr*>(&address), address_length) == 0 ? 0 : errno;
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void tune_connection(int fd) {
  constexpr int kProbeAfterSeconds = 10;  // of silence
  constexpr int kProbeEverySeconds = 5;
  constexpr int kProbes = 4;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEverySeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Result<UniqueFd> open_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  return fd;
}

namespace {

Result<UniqueFd> listen_at(const SocketAddress& address) {
  auto fd = open_socket(address.family());
  if (!fd.ok()) return fd;
  // Not for any free port: the system might choose one that is bound already.
  if (address.port() != 0) set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd->get(), address.data(), address.size()) != 0) return Status::from_errno("bind", errno);
  if (::listen(fd->get(), SOMAXCONN) != 0) return Status::from_errno("listen", errno);
  return fd;
}

}  // namespace

Result<UniqueFd> listen_on(const SocketAddress& address, const PortRange& ports) {
  if (address.port() != 0 || ports.first == 0) return listen_at(address);
  SocketAddress one = address;
  for (unsigned port = ports.first; port <= ports.last; ++port) {
    one.set_port(static_cast<std::uint16_t>(port));
    auto fd = listen_at(one);
    if (fd.ok() || !is_taken(fd.status())) return fd;
  }
  return Status(Code::invalid_argument, fmt::format("no port of KOLO_PORTS={}-{} is free at {}", ports.first,
                                                    ports.last, address.host()));
}

bool is_taken(const Status& status) {
  return status.message().ends_with(Status::from_errno("", EADDRINUSE).message());
}

std::uint16_t local_port(int fd) {
  const auto here = SocketAddress::local(fd);
  return here ? here->port() : std::uint16_t{0};
}

std::string remote_name(int fd) {
  const auto there = SocketAddress::remote(fd);
  return there ? there->host() : "a process";
}

Result<UniqueFd> connect_to(const SocketAddress& address, const Deadline& deadline) {
  auto made = open_socket(address.family());
  if (!made.ok()) return made;
  const int fd = made->get();
  if (::connect(fd, address.data(), address.size()) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return Status::from_errno("connect", errno);
    if (Status status = await(fd, POLLOUT, deadline); !status.ok()) return status;
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Status::from_errno("connect", error);
  }
  if (reached_itself(fd)) {
    const linger at_once{1, 0};  // no TIME_WAIT on a port that the server wants
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    return Status::from_errno("connect", ECONNREFUSED);
  }
  tune_connection(fd);
  return made;
}

Status send_all(int fd, std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
    } else if (would_block(errno)) {
      if (Status status = await(fd, POLLOUT, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
  return {};
}

Result<std::size_t> receive_some(int fd, std::span<std::byte> into, const Deadline& deadline) {
  for (;;) {
    const ssize_t got = ::recv(fd, into.data(), into.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return lost(0);
    if (would_block(errno)) {
      if (Status status = await(fd, POLLIN, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
}

Status receive_all(int fd, std::string& into, const Deadline& deadline) {
  for (std::size_t done = 0; done < into.size();) {
    auto got = receive_some(fd, std::as_writable_bytes(std::span(into)).subspan(done), deadline);
    if (!got.ok()) return got.status();
    done += *got;
  }
  return {};
}

}  // namespace kolo::net
