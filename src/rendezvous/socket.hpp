// Sockets for the store: name resolution, listening, and transfers that end at a deadline.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool is_loopback() const;
};

/// "tcp://10.0.0.1:29500", "tcp://[::1]:29500", "tcp://node1:29500".
std::string tcp_url(const std::string& host, std::uint16_t port);

/// True for a numeric address, with or without a scope: "10.0.0.1", "::1".
bool is_numeric_host(const std::string& host);

/// The addresses of the name, in the resolver's order; Code::rendezvous if it is unknown. The resolver keeps
/// its own time limits. "localhost" is always 127.0.0.1, then ::1, without asking the resolver. An empty host
/// means all interfaces: IPv6, which takes IPv4 as well, first.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

/// A listening socket, non-blocking; the error is Code::system with the errno's text.
Result<UniqueFd> listen_on(const SocketAddress& address);
std::uint16_t local_port(int fd);
/// For log messages: the numeric address of the other side.
std::string remote_name(int fd);

/// A connected socket, non-blocking, without delay, with keep-alive.
Result<UniqueFd> connect_to(const SocketAddress& address, const Deadline& deadline);

/// Waits for the first byte, then returns the bytes that are there; errors as below.
Result<std::size_t> receive_some(int fd, std::span<std::byte> into, const Deadline& deadline);

/// All of the bytes or an error: Code::timeout at the deadline, Code::peer_lost if the other side is gone.
Status send_all(int fd, std::string_view bytes, const Deadline& deadline);
Status receive_all(int fd, std::string& into, const Deadline& deadline);

}  // namespace kolo
