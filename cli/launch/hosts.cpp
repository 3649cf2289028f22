#include "launch/hosts.hpp"

#include <fmt/format.h>

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "base/status.hpp"
#include "kolo/error.hpp"
#include "net/socket.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

[[noreturn]] void refuse_host(const std::string& item, const std::string& why) {
  cli::refuse("host \"{}\": {}", item, why);
}

/// Parses "b", "me@b:4", "[fd00::2%eth0]:4". A name does not begin with a dash: ssh would parse an option.
HostSlots parse_host(const std::string& item) {
  static const std::regex kForm(
      R"(\s*([^-:\[\]\s][^:\[\]\s]*@)?(?:([^-@:\[\]\s][^@:\[\]\s]*)|\[([^\[\]\s]+)\])(?::(\d{1,4}))?\s*)");
  std::smatch found;
  HostSlots host;
  bool is_good = std::regex_match(item, found, kForm);
  if (is_good) {
    const std::string address = found[3];
    host.login = found[1].str() + found[2].str() + address;
    if (found[4].matched) host.slots = std::stoi(found[4]);
    is_good = host.slots >= 1 && host.slots <= kLargestJob &&
              (address.empty() || (address.find(':') != std::string::npos &&
                                   net::is_numeric_host(address.substr(0, address.find('%')))));
  }
  if (!is_good)
    refuse_host(item,
                fmt::format("write b, or me@b:4 for 4 ranks there (1 to {}), or [fd00::2]:4 for an IPv6 "
                            "address; of node[1-4] name every host: node1,node2",
                            kLargestJob));
  return host;
}

std::vector<HostSlots> checked(std::vector<HostSlots> hosts) {
  if (hosts.empty()) refuse("no host was named");
  std::set<std::string> known;
  int slots = 0;
  for (const HostSlots& host : hosts) {
    if (!known.insert(host.login).second)
      refuse_host(host.login, "it is named twice; give it more slots instead");
    slots += host.slots;
  }
  if (slots > kLargestJob) refuse("{} ranks are more than {}", slots, kLargestJob);
  return hosts;
}

/// The address of a host, and the address of this host on the route to it.
struct Path {
  std::string there, here;
  bool loopback = false;
};

Path path_to(const HostSlots& host) {
  const auto addresses = net::resolve(host.name(), 0);
  if (!addresses.ok()) {
    throw RendezvousError(addresses.status().message() +
                              "; correct it or, if only ssh knows it, name this machine's address with "
                              "--store-address",
                          {});
  }
  for (const net::SocketAddress& address : addresses.value()) {
    if (const auto here = net::source_towards(address)) {
      return {address.host(), here->host(), address.is_loopback()};
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
  if (!file) refuse("{}: {}", path, std::strerror(errno));
  return read_hosts(file, path);
}

std::vector<HostSlots> run_hosts_command(const std::string& command) {
  std::ostringstream text;
  std::FILE* output = ::popen(command.c_str(), "re");
  if (output == nullptr) Status::from_errno("cannot run " + command, errno).throw_if_error();
  for (int letter; (letter = std::fgetc(output)) != EOF;) text << static_cast<char>(letter);
  if (::pclose(output) != 0) refuse("--hosts-command \"{}\" has failed", command);
  std::istringstream lines(text.str());
  return read_hosts(lines, "--hosts-command");
}

std::vector<HostSlots> read_hosts(std::istream& file, const std::string& path) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, more;
    if (!(words >> name)) continue;
    words >> slots >> more;
    try {
      if (!more.empty()) refuse_host(line, "only a name and a number of ranks stand on a line");
      hosts.push_back(parse_host(slots.empty() ? name : name + ":" + slots));
    } catch (const InvalidArgumentError& error) {
      refuse("{}:{}: {}", path, number, error.what());
    }
  }
  if (file.bad()) refuse("{}: {}", path, std::strerror(errno));
  return checked(std::move(hosts));
}

JobAddresses choose_addresses(const std::vector<HostSlots>& hosts, const std::string& store_address) {
  if (hosts.empty()) {
    const std::string loopback = net::loopback_host().value_or_throw();
    return {loopback, loopback};
  }
  if (!store_address.empty()) {
    // Some names may be known only to ssh, so only the first host's name is resolved.
    const auto first = net::resolve(hosts[0].name(), 1);
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

ReservedPort::ReservedPort(bool loopback) {
  Status last;
  const std::string host = loopback ? net::loopback_host().value_or_throw() : "";
  // All interfaces: tries dual-stack IPv6 first, then IPv4 alone.
  for (const net::SocketAddress& address : net::resolve(host, 0).value_or_throw()) {
    fd_ = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd_.valid()) last = Status::from_errno("cannot reserve a port", errno);
    if (!fd_.valid()) continue;
    net::set_option(fd_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.family() == AF_INET6) net::set_option(fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(fd_.get(), address.data(), address.size()) == 0) {
      port_ = net::local_port(fd_.get());
      return;
    }
    last = Status::from_errno("cannot reserve a port", errno);
  }
  last.throw_if_error();
}

}  // namespace kolo::cli
