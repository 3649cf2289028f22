// The tcp address: a host, and the socket addresses at which its rank may be reached.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/address.hpp"

namespace kolo::transport::tcp {

/// Keeps an Address's text below 1 KiB.
inline constexpr std::size_t kMostAddresses = 12;

/// Text: "host=..;mark=..;at=10.0.0.1:4000,[fd00::1]:4000,127.0.0.1:4000"; the mark may be missing.
struct Address {
  std::string host;  ///< TransportOptions::host
  std::string mark;  ///< ProcessMark::name()
  std::vector<net::SocketAddress> at;

  std::string text() const;
  static std::optional<Address> parse(std::string_view text);
};

/// The addresses at which `from` may dial `to`, best first. Loopback comes first, and only between ranks of
/// one host: elsewhere it leads to the wrong host. A kind of address (loopback
/// or not, IPv4 or IPv6) that `from` does not have itself is left out. So the result is empty in both
/// directions, or in neither.
std::vector<net::SocketAddress> candidates(const Address& from, const Address& to);

}  // namespace kolo::transport::tcp
