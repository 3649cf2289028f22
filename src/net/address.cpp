#include "net/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "base/unique_fd.hpp"

namespace kolo::net {
namespace {

const sockaddr_in& v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

std::optional<SocketAddress> end_of(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage));
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
  const std::string_view separator = bracketed ? "]:" : ":";
  const std::size_t at = text.find(separator);
  if (at == text.npos) return std::nullopt;
  const std::string_view digits = text.substr(at + separator.size());
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return std::nullopt;
  auto address = parse_host(std::string(text.substr(0, at)));
  if (!address || (address->family() == AF_INET6) != bracketed) return std::nullopt;
  address->set_port(port);
  return address;
}

std::optional<SocketAddress> SocketAddress::from(const sockaddr* address) {
  SocketAddress made = any(address->sa_family);
  if (made.family() != AF_INET && made.family() != AF_INET6) return std::nullopt;
  std::memcpy(&made.storage_, address, made.size());
  return made;
}

SocketAddress SocketAddress::any(int family) {
  SocketAddress made;
  made.storage_.ss_family = static_cast<sa_family_t>(family);
  return made;
}

std::optional<SocketAddress> SocketAddress::local(int fd) {
  return end_of(fd, ::getsockname);
}

std::optional<SocketAddress> SocketAddress::remote(int fd) {
  return end_of(fd, ::getpeername);
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
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
  ::getnameinfo(data(), size(), text, sizeof text, nullptr, 0, NI_NUMERICHOST);
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

std::string without_brackets(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

std::string tcp_url(const std::string& host, std::uint16_t port) {
  if (host.empty()) return fmt::format("tcp://*:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("tcp://{}:{}", host, port)
                                             : fmt::format("tcp://[{}]:{}", without_brackets(host), port);
}

bool is_numeric_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  std::vector<SocketAddress> addresses;
  if (host.empty()) {
    addresses = {SocketAddress::any(AF_INET6), SocketAddress::any(AF_INET)};
  } else if (host == "localhost") {
    // RFC 6761, section 6.3: loopback without the resolver. Containers and chroots may lack /etc/hosts.
    addresses = {*SocketAddress::parse_host("127.0.0.1"), *SocketAddress::parse_host("::1")};
  } else {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* raw = nullptr;
    if (const int error = ::getaddrinfo(without_brackets(host).c_str(), nullptr, &hints, &raw); error != 0) {
      return Status(Code::rendezvous,
                    fmt::format("the host name \"{}\" is not known here: {}", host, ::gai_strerror(error)));
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(raw, ::freeaddrinfo);
    for (const addrinfo* at = found.get(); at; at = at->ai_next) {
      if (const auto address = SocketAddress::from(at->ai_addr)) addresses.push_back(*address);
    }
  }
  for (SocketAddress& address : addresses) address.set_port(port);
  return addresses;
}

/// Connecting a datagram socket sends nothing.
std::optional<SocketAddress> source_towards(SocketAddress there) {
  there.set_port(9);
  const UniqueFd fd(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), there.data(), there.size()) != 0) return std::nullopt;
  auto address = SocketAddress::local(fd.get());
  if (address) address->set_port(0);
  return address;
}

Result<std::string> loopback_host() {
  for (const char* host : {"127.0.0.1", "::1"}) {
    if (const auto source = source_towards(*SocketAddress::parse_host(host)); source && source->is_loopback())
      return std::string(host);
  }
  return Status(Code::system,
                "loopback is down on this host, so its processes cannot reach each other: ip link set lo up");
}

}  // namespace kolo::net
