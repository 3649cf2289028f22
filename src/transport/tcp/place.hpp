// Place: the addresses of this host at which a rank listens, and why.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "transport/tcp/address.hpp"

namespace kolo::transport::tcp {

/// One address of an interface that is up, without port.
struct LocalAddress {
  net::SocketAddress address;
  std::string interface;
};

/// All addresses of this host except link-local ones, in the kernel's order.
Result<std::vector<LocalAddress>> local_addresses();

/// "lo (127.0.0.1, ::1), eth0 (10.0.0.1)".
std::string list_of(const std::vector<LocalAddress>& addresses);

struct Place {
  std::vector<net::SocketAddress> at;  ///< without ports; all of one interface unless a subnet says otherwise
  std::string why;                     ///< for the log: "eth0, which leads to the store at node1"
};

/// Addresses by the user's setting: an interface ("eth0"), an address ("10.0.0.1", "fd00::1") or a subnet
/// ("10.77.0.0/16", "fd77::/64"), looked up in `here`. If nothing fits: Code::invalid_argument that lists
/// `here`.
Result<Place> place_named(const std::string& interface, const std::vector<LocalAddress>& here);

/// Addresses of the one interface that reaches the other ranks, at most one of each family that does. The
/// first that exists of: the interface through which the kernel routes to any address of `store_host`; the
/// interface of the default route; the first interface that is not loopback. Loopback is used for
/// `store_host` only if it is spelled as loopback, since a host's own name may stand for loopback in its own
/// /etc/hosts.
Result<Place> place_towards(const std::string& store_host, const std::vector<LocalAddress>& here);

/// Loopback, in each family that this host has.
Place place_on_loopback(const std::vector<LocalAddress>& here);

}  // namespace kolo::transport::tcp
