// The tcp address: a host, and the socket addresses at which its rank may be reached.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::tcp {

/// One IPv4 or IPv6 address with a port. Text: "10.0.0.1:4000", "[fd00::1]:4000"; no names, no zones.
class SocketAddress {
 public:
  SocketAddress() = default;
  static std::optional<SocketAddress> parse(std::string_view text);
  /// Without a port: "10.0.0.1", "fd00::1".
  static std::optional<SocketAddress> parse_host(const std::string& host);
  /// Null for other families.
  static std::optional<SocketAddress> from(const sockaddr* address);
  /// The unspecified address of a family: all interfaces.
  static SocketAddress any(int family);

  int family() const { return storage_.ss_family; }
  bool is_loopback() const;
  /// Usable only together with its interface.
  bool is_link_local() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  std::string text() const;
  /// Without port and brackets.
  std::string host() const;

  /// The address in network byte order: 4 or 16 bytes.
  std::string_view bytes() const;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const;

 private:
  sockaddr_storage storage_{};
};

/// Keeps an Address's text below 1 KiB.
inline constexpr std::size_t kMostAddresses = 12;

/// Text: "boot=..;net=..;at=10.0.0.1:4000,[fd00::1]:4000,127.0.0.1:4000".
struct Address {
  std::string boot, net_namespace;
  std::vector<SocketAddress> at;

  std::string text() const;
  static std::optional<Address> parse(std::string_view text);
};

/// The addresses at which `from` may dial `to`, best first. Loopback comes first, and only between ranks that
/// share a host and its network namespace: elsewhere it leads to the wrong host. A kind of address (loopback
/// or not, IPv4 or IPv6) that `from` does not have itself is left out. So the result is empty in both
/// directions, or in neither.
std::vector<SocketAddress> candidates(const Address& from, const Address& to);

}  // namespace kolo::tcp
