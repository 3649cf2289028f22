#include "transport/tcp/place.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

namespace kolo::transport::tcp {
namespace {

bool is_spelled_loopback(const std::string& host) {
  const auto address = net::SocketAddress::parse_host(host);
  return host == "localhost" || (address && address->is_loopback());
}

/// Finds the interface of the first target that is reached through one other than loopback. Then takes that
/// interface's addresses that lead to any of the targets, at most one of each family.
Place place_by_route(const std::vector<net::SocketAddress>& targets, const std::vector<LocalAddress>& here) {
  Place place;
  std::string interface;
  for (const net::SocketAddress& target : targets) {
    const auto source = net::source_towards(target);
    if (!source || source->is_loopback()) continue;
    const auto local = std::find_if(here.begin(), here.end(), [&](const LocalAddress& one) {
      return one.address.bytes() == source->bytes();
    });
    if (local == here.end() || (!interface.empty() && local->interface != interface)) continue;
    interface = local->interface;
    const bool have = std::any_of(place.at.begin(), place.at.end(), [&](const net::SocketAddress& one) {
      return one.family() == source->family();
    });
    if (!have) place.at.push_back(*source);
  }
  place.why = interface;
  return place;
}

/// A subnet as "10.77.0.0/16"; parse() returns nullopt if the text is none.
struct Subnet {
  net::SocketAddress base;
  unsigned bits = 0;

  static std::optional<Subnet> parse(const std::string& text) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) return std::nullopt;
    const auto base = net::SocketAddress::parse_host(text.substr(0, slash));
    if (!base) return std::nullopt;
    Subnet subnet{*base, 0};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, subnet.bits);
    if (error != std::errc() || stop != end || subnet.bits > 8 * base->bytes().size()) return std::nullopt;
    return subnet;
  }
  bool holds(const net::SocketAddress& address) const {
    if (address.family() != base.family()) return false;
    const auto one = address.bytes(), other = base.bytes();
    const std::size_t whole = bits / 8;
    if (one.substr(0, whole) != other.substr(0, whole)) return false;
    const unsigned rest = bits % 8;
    return rest == 0 || ((one[whole] ^ other[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
  }
};

}  // namespace

Result<std::vector<LocalAddress>> local_addresses() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return Status::from_errno("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
  std::vector<LocalAddress> found;
  for (const ifaddrs* entry = list.get(); entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = net::SocketAddress::from(entry->ifa_addr);
    if (address && !address->is_link_local()) found.push_back({*address, entry->ifa_name});
  }
  return found;
}

std::string list_of(const std::vector<LocalAddress>& addresses) {
  std::vector<std::pair<std::string, std::string>> interfaces;
  for (const LocalAddress& one : addresses) {
    const auto known = std::find_if(interfaces.begin(), interfaces.end(),
                                    [&](const auto& entry) { return entry.first == one.interface; });
    if (known == interfaces.end()) {
      interfaces.emplace_back(one.interface, one.address.host());
    } else {
      known->second += ", " + one.address.host();
    }
  }
  std::string text;
  for (const auto& [name, hosts] : interfaces) {
    text += text.empty() ? "" : ", ";
    text += name + " (" + hosts + ")";
  }
  return text.empty() ? "none" : text;
}

Result<Place> place_named(const std::string& interface, const std::vector<LocalAddress>& here) {
  const auto address = net::SocketAddress::parse_host(net::without_brackets(interface));
  const auto subnet = Subnet::parse(interface);
  Place place;
  place.why = "\"" + interface + "\", as told";
  // All of 127.0.0.0/8 is this host, but only one address of it is listed.
  if (address && address->is_loopback()) place.at.push_back(*address);
  for (const LocalAddress& one : here) {
    const bool fits = address  ? one.address.bytes() == address->bytes() && place.at.empty()
                      : subnet ? subnet->holds(one.address)
                               : one.interface == interface;
    if (fits && place.at.size() < kMostAddresses) place.at.push_back(one.address);
  }
  if (!place.at.empty()) return place;
  return Status(Code::invalid_argument, "KOLO_INTERFACE=\"" + interface +
                                            "\" is neither an interface that is up, nor an address nor a "
                                            "subnet of this host, which has " +
                                            list_of(here));
}

Result<Place> place_towards(const std::string& store_host, const std::vector<LocalAddress>& here) {
  if (!store_host.empty()) {
    if (is_spelled_loopback(store_host)) {
      Place place = place_on_loopback(here);
      place.why += ", where the store is: all ranks are on this host";
      return place;
    }
    const auto store = net::resolve(store_host, 0);
    Place place = store.ok() ? place_by_route(*store, here) : Place();
    place.why += ", which leads to the store at " + store_host;
    if (!place.at.empty()) return place;
  }
  // Addresses reserved for documentation (RFC 5737, RFC 3849): routed as those of any far host.
  Place place = place_by_route(
      {*net::SocketAddress::parse_host("192.0.2.1"), *net::SocketAddress::parse_host("2001:db8::1")}, here);
  place.why += ", which has the default route";
  if (!place.at.empty()) return place;
  for (const LocalAddress& one : here) {
    if (one.address.is_loopback()) continue;
    const bool first = place.at.empty();
    if (first) place.why = one.interface + ", the first interface";
    if (first || place.why == one.interface + ", the first interface") place.at.push_back(one.address);
    if (place.at.size() == kMostAddresses) break;
  }
  if (!place.at.empty()) return place;
  place = place_on_loopback(here);
  place.why += ", since there is nothing else";
  if (place.at.empty()) return Status(Code::system, "this host has no network address");
  return place;
}

Place place_on_loopback(const std::vector<LocalAddress>& here) {
  Place place;
  place.why = "loopback";
  for (const char* host : {"127.0.0.1", "::1"}) {
    const auto address = net::SocketAddress::parse_host(host);
    const bool have = std::any_of(here.begin(), here.end(), [&](const LocalAddress& one) {
      return one.address.bytes() == address->bytes();
    });
    if (have) place.at.push_back(*address);
  }
  return place;
}

}  // namespace kolo::transport::tcp
