#include "transport/tcp/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kolo::tcp {
namespace {

const sockaddr_in& v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

/// Takes everything up to `end` (which must be there) off the front of `text`.
std::optional<std::string> take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  std::string taken(text.substr(0, at));
  text.remove_prefix(at + end.size());
  return taken;
}

bool same_kind(const SocketAddress& a, const SocketAddress& b) {
  return a.family() == b.family() && a.is_loopback() == b.is_loopback();
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse_host(const std::string& host) {
  SocketAddress made = any(AF_INET);
  if (::inet_pton(AF_INET, host.c_str(), &reinterpret_cast<sockaddr_in*>(&made.storage_)->sin_addr) == 1) {
    return made;
  }
  made = any(AF_INET6);
  if (::inet_pton(AF_INET6, host.c_str(), &reinterpret_cast<sockaddr_in6*>(&made.storage_)->sin6_addr) == 1) {
    return made;
  }
  return std::nullopt;
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  if (bracketed) text.remove_prefix(1);
  const auto host = take_until(text, bracketed ? "]:" : ":");
  if (!host) return std::nullopt;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  auto address = parse_host(*host);
  if (!address || (address->family() == AF_INET6) != bracketed) return std::nullopt;
  address->set_port(port);
  return address;
}

std::optional<SocketAddress> SocketAddress::from(const sockaddr* address) {
  SocketAddress made;
  if (address->sa_family == AF_INET) {
    std::memcpy(&made.storage_, address, sizeof(sockaddr_in));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&made.storage_, address, sizeof(sockaddr_in6));
  } else {
    return std::nullopt;
  }
  return made;
}

SocketAddress SocketAddress::any(int family) {
  SocketAddress made;
  made.storage_.ss_family = static_cast<sa_family_t>(family);
  return made;
}

bool SocketAddress::is_loopback() const {
  return family() == AF_INET ? ntohl(v4(storage_).sin_addr.s_addr) >> 24 == 127
                             : IN6_IS_ADDR_LOOPBACK(&v6(storage_).sin6_addr);
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET ? ntohl(v4(storage_).sin_addr.s_addr) >> 16 == 0xa9fe
                             : IN6_IS_ADDR_LINKLOCAL(&v6(storage_).sin6_addr);
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? v4(storage_).sin_port : v6(storage_).sin6_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  }
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family(), bytes().data(), text, sizeof text);
  return text;
}

std::string_view SocketAddress::bytes() const {
  if (family() == AF_INET) return {reinterpret_cast<const char*>(&v4(storage_).sin_addr), 4};
  return {reinterpret_cast<const char*>(&v6(storage_).sin6_addr), 16};
}

std::string SocketAddress::text() const {
  return (family() == AF_INET6 ? "[" + host() + "]" : host()) + ":" + std::to_string(port());
}

socklen_t SocketAddress::size() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string Address::text() const {
  std::string text = "boot=" + boot + ";net=" + net_namespace + ";at=";
  for (std::size_t i = 0; i < at.size(); ++i) text += (i == 0 ? "" : ",") + at[i].text();
  return text;
}

std::optional<Address> Address::parse(std::string_view text) {
  Address address;
  if (!text.starts_with("boot=")) return std::nullopt;
  text.remove_prefix(5);
  auto boot = take_until(text, ";net=");
  if (!boot || boot->empty()) return std::nullopt;
  auto net = take_until(text, ";at=");
  if (!net || net->empty()) return std::nullopt;
  address.boot = std::move(*boot);
  address.net_namespace = std::move(*net);
  while (address.at.size() < kMostAddresses) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto one = SocketAddress::parse(text.substr(0, end));
    if (!one) return std::nullopt;
    address.at.push_back(*one);
    if (end == text.size()) return address;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::vector<SocketAddress> candidates(const Address& from, const Address& to) {
  const bool same_host = from.boot == to.boot && from.net_namespace == to.net_namespace;
  std::vector<SocketAddress> found;
  for (const SocketAddress& there : to.at) {
    const bool have = std::any_of(from.at.begin(), from.at.end(),
                                  [&](const SocketAddress& here) { return same_kind(here, there); });
    if (have && (same_host || !there.is_loopback())) found.push_back(there);
  }
  std::stable_partition(found.begin(), found.end(), [](const SocketAddress& a) { return a.is_loopback(); });
  return found;
}

}  // namespace kolo::tcp
