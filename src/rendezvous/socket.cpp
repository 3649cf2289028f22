#include "rendezvous/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "base/socket_options.hpp"
#include "base/would_block.hpp"

namespace kolo {
namespace {

SocketAddress ipv4_address(in_addr_t host, std::uint16_t port) {
  SocketAddress address;
  auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(host);
  in.sin_port = htons(port);
  address.length = sizeof(sockaddr_in);
  return address;
}

SocketAddress ipv6_address(const in6_addr& host, std::uint16_t port) {
  SocketAddress address;
  auto& in = reinterpret_cast<sockaddr_in6&>(address.storage);
  in.sin6_family = AF_INET6;
  in.sin6_addr = host;
  in.sin6_port = htons(port);
  address.length = sizeof(sockaddr_in6);
  return address;
}

bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
  const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
  return x.sin6_port == y.sin6_port && std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof(x.sin6_addr)) == 0;
}

/// A client that keeps dialling a free port of its own host may get that very port as its own and so connect
/// to itself. This also takes the port from the server that the client waits for.
bool reached_itself(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_length = sizeof(here);
  socklen_t there_length = sizeof(there);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_length) == 0 &&
         same_address(here, there);
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

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  }
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr) != 0;
}

std::string tcp_url(const std::string& host, std::uint16_t port) {
  if (host.empty()) return fmt::format("tcp://*:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("tcp://{}:{}", host, port)
                                             : fmt::format("tcp://[{}]:{}", host, port);
}

bool is_numeric_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  if (host.empty()) return std::vector{ipv6_address(in6addr_any, port), ipv4_address(INADDR_ANY, port)};
  // RFC 6761, section 6.3: loopback without the resolver. Containers and chroots may lack /etc/hosts.
  if (host == "localhost")
    return std::vector{ipv4_address(INADDR_LOOPBACK, port), ipv6_address(in6addr_loopback, port)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Status(Code::rendezvous,
                  fmt::format("the host name \"{}\" is not known here: {}", host, ::gai_strerror(error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at; at = at->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Result<UniqueFd> listen_on(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.get(), address.length) != 0) return Status::from_errno("bind", errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) return Status::from_errno("listen", errno);
  return fd;
}

std::uint16_t local_port(int fd) {
  sockaddr_storage here{};
  socklen_t length = sizeof(here);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length) != 0) return 0;
  return ntohs(here.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(here).sin_port
                                         : reinterpret_cast<sockaddr_in6&>(here).sin6_port);
}

std::string remote_name(int fd) {
  sockaddr_storage there{};
  socklen_t length = sizeof(there);
  char host[64] = "";
  auto* address = reinterpret_cast<sockaddr*>(&there);
  if (::getpeername(fd, address, &length) != 0 ||
      ::getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "somebody";
  }
  return host;
}

Result<UniqueFd> connect_to(const SocketAddress& address, const Deadline& deadline) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  if (::connect(fd.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return Status::from_errno("connect", errno);
    if (Status status = await(fd.get(), POLLOUT, deadline); !status.ok()) return status;
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Status::from_errno("connect", error);
  }
  if (reached_itself(fd.get())) {
    const linger at_once{1, 0};  // no TIME_WAIT on a port that the server wants
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    return Status::from_errno("connect", ECONNREFUSED);
  }
  tune_connection(fd.get());
  return fd;
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

}  // namespace kolo
