// Place: at which addresses of this host a rank listens, and why.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "transport/tcp/address.hpp"

namespace kolo::tcp {

/// One address of an interface that is up, without port.
struct LocalAddress {
  SocketAddress address;
  std::string interface;
};

/// All that this host has but link-local ones, in the kernel's order.
Result<std::vector<LocalAddress>> local_addresses();

/// "lo (127.0.0.1, ::1), eth0 (10.0.0.1)".
std::string list_of(const std::vector<LocalAddress>& addresses);

struct Place {
  std::vector<SocketAddress> at;  ///< without ports; all of one interface unless a subnet says otherwise
  std::string why;                ///< for the log: "eth0, which leads to the store at node1"
};

/// What a person named: an interface ("eth0"), an address ("10.0.0.1", "fd00::1") or a subnet
/// ("10.77.0.0/16", "fd77::/64") of those that are here. Code::invalid_argument that lists what there is
/// where nothing fits.
Result<Place> place_named(const std::string& interface, const std::vector<LocalAddress>& here);

/// The one interface that reaches the others, with an address of each family that does. In this order: what
/// the kernel routes to `store_host` through (any of its addresses; loopback only when it is spelled so,
/// since a host's own name may stand for loopback in its own /etc/hosts); the default route; the first that
/// is not loopback.
Result<Place> place_towards(const std::string& store_host, const std::vector<LocalAddress>& here);

/// Loopback, in each family that there is.
Place place_on_loopback(const std::vector<LocalAddress>& here);

}  // namespace kolo::tcp
