#include "launch/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "kolo/error.hpp"
#include "net/address.hpp"

namespace kolo::cli {
namespace {

[[noreturn]] void refuse(const std::string& item, const std::string& why) {
  throw InvalidArgument(fmt::format("host \"{}\": {}", item, why), {});
}

int parse_slots(const std::string& item, std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kLargestJob) {
    refuse(item, fmt::format("the number of its ranks must be from 1 to {}", kLargestJob));
  }
  return slots;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Splits the host from the text after it, which may be ":N": "me@[fd00::2]:4" into "me@fd00::2" and ":4".
std::pair<std::string, std::string> split_host(const std::string& item) {
  const auto open = item.find('['), close = item.find(']');
  if (open == std::string::npos && close == std::string::npos) {
    const auto colon = std::min(item.find(':'), item.size());
    if (item.find(':', colon + 1) != std::string::npos)
      refuse(item, "an IPv6 address belongs in brackets: [fd00::2]:4");
    return {item.substr(0, colon), item.substr(colon)};
  }
  const std::string user = item.substr(0, std::min(open, item.size()));
  if (open == std::string::npos || !(user.empty() || user.ends_with('@')))
    refuse(item, "brackets are for IPv6 addresses; of node[1-4] name every host: node1,node2");
  if (close == std::string::npos || close < open) refuse(item, "a ] is missing");
  const std::string address = item.substr(open + 1, close - open - 1);
  const std::string digits = address.substr(0, address.find('%'));  // without the interface
  if (digits.find(':') == std::string::npos || !is_numeric_host(digits))
    refuse(item, "what stands in brackets is no IPv6 address");
  return {user + address, item.substr(close + 1)};
}

/// `slots` may be given separately, as in a file.
HostSlots parse_host(const std::string& item, std::string slots = "") {
  HostSlots host;
  std::string rest;
  std::tie(host.login, rest) = split_host(item);
  if (!rest.empty() && !rest.starts_with(':')) refuse(item, "only :N may follow the ]");
  if (!rest.empty() && !slots.empty()) refuse(item, "the number of its ranks stands there twice");
  if (!rest.empty()) slots = rest.substr(1);
  if (!rest.empty() || !slots.empty()) host.slots = parse_slots(item, slots);
  // ssh would parse a leading dash as an option.
  const bool blanks = host.login.find_first_of(" \t") != std::string::npos;
  if (host.name().empty() || host.login.starts_with('-') || blanks) refuse(item, "this is no name of a host");
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

/// The address of a host, and the address of this host on the route to it.
struct Path {
  std::string there, here;
  bool loopback = false;
};

Path path_to(const HostSlots& host) {
  const auto addresses = resolve(host.name(), 0);
  if (!addresses.ok()) {
    throw RendezvousError(addresses.status().message() +
                              "; if only ssh knows it, name this host's address with --store-address",
                          {});
  }
  for (const SocketAddress& address : addresses.value()) {
    if (const auto here = source_towards(address)) {
      return {address.host(), here->host(), address.is_loopback()};
    }
  }
  throw RendezvousError("no route leads to " + host.name(), {});
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) hosts.push_back(parse_host(trimmed(item)));
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
      HostSlots host = parse_host(name, slots);
      if (!more.empty()) refuse(line, "only a name and a number of ranks stand on a line");
      hosts.push_back(std::move(host));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}:{}: {}", path, number, error.what()), {});
    }
  }
  if (file.bad()) throw InvalidArgument(fmt::format("{}: {}", path, std::strerror(errno)), {});
  return checked(std::move(hosts));
}

Meet choose_meeting(const std::vector<HostSlots>& hosts, const std::string& store_address) {
  if (!store_address.empty()) {
    // Some names may be known only to ssh, so only the first host's name is resolved.
    const auto first = resolve(hosts[0].name(), 1);
    const bool known = first.ok() && !first.value().empty() && !first.value()[0].is_loopback();
    return {store_address, known               ? first.value()[0].host()
                           : hosts.size() == 1 ? store_address
                                               : hosts[0].name()};
  }
  std::vector<Path> paths;
  for (const HostSlots& host : hosts) {
    paths.push_back(path_to(host));
    if (paths.back().loopback) continue;
    // A first host on loopback is this host. The other hosts reach it at another address.
    return {paths.back().here, paths[0].loopback ? paths.back().here : paths[0].there};
  }
  return {paths[0].here, paths[0].there};
}

}  // namespace kolo::cli
