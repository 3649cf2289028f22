// SocketAddress: one IPv4 or IPv6 address with a port; name resolution.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace kolo::net {

/// Text: "10.0.0.1:4000", "[fd00::1]:4000".
class SocketAddress {
 public:
  SocketAddress() = default;
  /// No names, no zones.
  static std::optional<SocketAddress> parse(std::string_view text);
  /// Without a port: "10.0.0.1", "fd00::1".
  static std::optional<SocketAddress> parse_host(const std::string& host);
  /// Null for other families.
  static std::optional<SocketAddress> from(const sockaddr* address);
  /// The unspecified address of a family: all interfaces.
  static SocketAddress any(int family);
  /// Both ends of a socket; null if it is not connected, or of another family.
  static std::optional<SocketAddress> local(int fd);
  static std::optional<SocketAddress> remote(int fd);

  int family() const { return storage_.ss_family; }
  bool is_loopback() const;
  /// Usable only together with its interface.
  bool is_link_local() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  std::string text() const;
  /// Without port and brackets. A link-local address has its interface: "fe80::2%eth0".
  std::string host() const;

  /// The address in network byte order: 4 or 16 bytes.
  std::string_view bytes() const;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const;

  bool operator==(const SocketAddress& other) const {
    return family() == other.family() && port() == other.port() && bytes() == other.bytes();
  }

 private:
  sockaddr_storage storage_{};
};

/// "fd00::1" of "[fd00::1]", which is how URLs write it; any other host is returned as it is.
std::string without_brackets(const std::string& host);

/// "tcp://10.0.0.1:29500", "tcp://[::1]:29500", "tcp://node1:29500".
std::string tcp_url(const std::string& host, std::uint16_t port);

/// True for a numeric address, with or without a scope: "10.0.0.1", "::1".
bool is_numeric_host(const std::string& host);

/// The addresses of the name, in the resolver's order; Code::rendezvous if it is unknown. The resolver keeps
/// its own time limits. "localhost" is always 127.0.0.1, then ::1, without asking the resolver. An empty host
/// means all interfaces: IPv6, which takes IPv4 as well, first.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

/// The local address, without port, from which the kernel would send to `there`; sends nothing. Null: no
/// route.
std::optional<SocketAddress> source_towards(SocketAddress there);

/// 127.0.0.1, or ::1 on a host that has no other loopback; Code::system if loopback is down.
Result<std::string> loopback_host();

}  // namespace kolo::net
