#include "launch/hosts.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "base/unique_fd.hpp"
#include "kolo/error.hpp"
#include "rendezvous/socket.hpp"

namespace kolo::cli {
namespace {

[[noreturn]] void refuse(const std::string& item, const std::string& why) {
  throw InvalidArgument(fmt::format("host \"{}\": {}", item, why), {});
}

int parse_slots(const std::string& item, std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kLargestJob) {
    refuse(item, fmt::format("the number of ranks after the colon must be from 1 to {}", kLargestJob));
  }
  return slots;
}

HostSlots parse_host(const std::string& item) {
  HostSlots host;
  const auto open = item.find('['), close = item.find(']');
  if (open != std::string::npos) {
    if (close == std::string::npos || close < open) refuse(item, "a ] is missing");
    host.login = item.substr(0, open) + item.substr(open + 1, close - open - 1);
    const std::string rest = item.substr(close + 1);
    if (rest.starts_with(':')) {
      host.slots = parse_slots(item, std::string_view(rest).substr(1));
    } else if (!rest.empty()) {
      refuse(item, "only :N may follow the ]");
    }
  } else {
    const auto colon = item.find(':');
    if (colon != item.rfind(':')) refuse(item, "an IPv6 address belongs in brackets: [fd00::2]:4");
    host.login = item.substr(0, colon);
    if (colon != std::string::npos) host.slots = parse_slots(item, std::string_view(item).substr(colon + 1));
  }
  // ssh would take a leading dash for an option.
  if (host.name().empty() || host.login.starts_with('-')) refuse(item, "this is no name of a host");
  return host;
}

std::vector<HostSlots> checked(std::vector<HostSlots> hosts) {
  if (hosts.empty()) throw InvalidArgument("no host was named", {});
  std::set<std::string> known;
  int slots = 0;
  for (const HostSlots& host : hosts) {
    if (!known.insert(host.login).second) refuse(host.login, "it is named twice; give it more slots instead");
    slots += host.slots;
  }
  if (slots > kLargestJob)
    throw InvalidArgument(fmt::format("{} ranks are more than {}", slots, kLargestJob), {});
  return hosts;
}

/// With its interface, where the address means nothing without: fe80::2%eth0.
std::string text_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
  ::getnameinfo(address.get(), address.length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// The address from which the kernel would send to `there`; no packet leaves for that. Empty: no route.
std::string source_for(const SocketAddress& there) {
  const UniqueFd fd(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress here;
  here.length = sizeof(here.storage);
  if (!fd.valid() || ::connect(fd.get(), there.get(), there.length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.length) != 0) {
    return {};
  }
  return text_of(here);
}

/// Address of a host, and ours towards it.
struct Path {
  std::string there, here;
  bool loopback = false;
};

Path path_to(const HostSlots& host) {
  constexpr std::uint16_t kAnyPort = 9;
  const auto addresses = resolve(host.name(), kAnyPort);
  if (!addresses.ok()) {
    throw RendezvousError(addresses.status().message() +
                              "; if only ssh knows it, name this host's address with --store-address",
                          {});
  }
  for (const SocketAddress& address : addresses.value()) {
    if (std::string here = source_for(address); !here.empty()) {
      return {text_of(address), here, address.is_loopback()};
    }
  }
  throw RendezvousError("no route leads to " + host.name(), {});
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) hosts.push_back(parse_host(item));
  return checked(std::move(hosts));
}

std::vector<HostSlots> read_hosts_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InvalidArgument(fmt::format("{}: {}", path, std::strerror(errno)), {});
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, more;
    if (!(words >> name)) continue;
    words >> slots >> more;
    try {
      HostSlots host = parse_host(name);
      if (!slots.empty()) host.slots = parse_slots(line, slots);
      if (!more.empty()) refuse(line, "only a name and a number of ranks stand on a line");
      hosts.push_back(std::move(host));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}:{}: {}", path, number, error.what()), {});
    }
  }
  return checked(std::move(hosts));
}

Meet choose_meeting(const std::vector<HostSlots>& hosts, const std::string& store_address) {
  if (!store_address.empty()) {
    // ssh may know names that nobody else does: they are not asked for more than the first host's address.
    const auto first = resolve(hosts[0].name(), 1);
    const bool known = first.ok() && !first.value().empty() && !first.value()[0].is_loopback();
    return {store_address, known               ? text_of(first.value()[0])
                           : hosts.size() == 1 ? store_address
                                               : hosts[0].name()};
  }
  std::vector<Path> paths;
  for (const HostSlots& host : hosts) {
    paths.push_back(path_to(host));
    if (paths.back().loopback) continue;
    // A first host on loopback is this one, which the others know by another address.
    return {paths.back().here, paths[0].loopback ? paths.back().here : paths[0].there};
  }
  return {paths[0].here, paths[0].there};
}

}  // namespace kolo::cli
