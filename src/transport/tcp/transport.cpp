// The tcp transport: ranks on any hosts, through sockets.
#include "transport/transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "transport/connector.hpp"
#include "transport/host.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/endpoint.hpp"

namespace kolo {
namespace tcp {
namespace {

Result<UniqueFd> open_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status(Code::system, std::strerror(errno));
  return fd;
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Listens at a free port of `address` and writes it there.
Result<UniqueFd> listen_at(SocketAddress& address, bool both_families) {
  auto fd = open_socket(address.family());
  if (!fd.ok()) return fd;
  if (address.family() == AF_INET6) set(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  address.set_port(0);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::bind(fd->get(), address.data(), address.size()) != 0 || ::listen(fd->get(), SOMAXCONN) != 0 ||
      ::getsockname(fd->get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return Status::from_errno("listening at " + address.host(), errno);
  }
  address.set_port(SocketAddress::from(reinterpret_cast<const sockaddr*>(&bound))->port());
  return fd;
}

/// The sockets at which a rank listens, and the addresses to publish for them.
struct Listening {
  std::vector<UniqueFd> sockets;
  std::vector<SocketAddress> at;
};

/// At exactly the addresses of the interface that was named.
Result<Listening> listen_on(const std::string& interface) {
  auto addresses = local_addresses(interface);
  if (!addresses.ok()) return addresses.status();
  Listening listening;
  for (SocketAddress& address : *addresses) {
    auto fd = listen_at(address, false);
    if (!fd.ok()) return fd.status();
    listening.sockets.push_back(std::move(*fd));
    listening.at.push_back(address);
  }
  return listening;
}

/// Nobody named an interface: at one port of all of them.
Result<Listening> listen_everywhere() {
  auto addresses = local_addresses("");
  if (!addresses.ok()) return addresses.status();
  auto any = SocketAddress::any(AF_INET6);
  auto fd = listen_at(any, true);
  const bool both = fd.ok();
  if (!both) {
    any = SocketAddress::any(AF_INET);
    fd = listen_at(any, false);
  }
  if (!fd.ok()) return fd.status();
  Listening listening;
  listening.sockets.push_back(std::move(*fd));
  for (SocketAddress& address : *addresses) {
    if (address.family() == AF_INET6 && !both) continue;
    address.set_port(any.port());
    listening.at.push_back(address);
  }
  return listening;
}

class TcpTransport final : public Transport, private SocketKind {
 public:
  TcpTransport(const TransportOptions& options, Listening listening)
      : options_(options),
        address_{this_host().boot, this_host().net_namespace, std::move(listening.at)},
        listeners_(std::move(listening.sockets)) {}

  std::string_view name() const override { return "tcp"; }
  std::string address() const override { return address_.text(); }
  std::string host_address() const override {
    return address_.at.empty() || address_.at.front().is_loopback() ? std::string()
                                                                    : address_.at.front().host();
  }
  bool reaches(std::string_view one, std::string_view other) const override;
  Result<std::vector<std::unique_ptr<Endpoint>>> connect(int rank, std::span<const TransportPeer> peers,
                                                         const Deadline& deadline) override;
  std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) override;

 private:
  std::vector<int> listeners() const override;
  std::string listening_at() const override;
  std::vector<std::string> candidates(std::string_view address) const override;
  Result<UniqueFd> dial(const std::string& candidate) const override;
  bool admits(int) const override { return true; }  // the handshake decides

  TransportOptions options_;
  Address address_;
  std::vector<UniqueFd> listeners_;
};

class TcpDialer final : public Dialer {
 public:
  TcpDialer(const SocketKind& kind, const Identity& me, std::span<const TransportPeer> peers)
      : connector_(kind, me, peers) {}

  void dial(int rank) override { connector_.dial(rank); }
  int fd() const override { return connector_.fd(); }
  Clock::time_point next_time() const override { return connector_.next_time(); }
  std::vector<Connected> progress() override {
    std::vector<Connected> connected;
    for (auto& [rank, socket] : connector_.progress()) {
      connected.push_back({rank, std::make_unique<TcpEndpoint>(std::move(socket))});
    }
    return connected;
  }
  std::string known(int rank) const override { return connector_.known(rank); }
  std::chrono::nanoseconds unreachable_for(int rank) const override {
    return connector_.unreachable_for(rank);
  }

 private:
  Connector connector_;
};

bool TcpTransport::reaches(std::string_view one, std::string_view other) const {
  const auto a = Address::parse(one), b = Address::parse(other);
  return a && b && !tcp::candidates(*a, *b).empty();
}

Result<std::vector<std::unique_ptr<Endpoint>>> TcpTransport::connect(int rank,
                                                                     std::span<const TransportPeer> peers,
                                                                     const Deadline& deadline) {
  auto sockets = connect_all(*this, {options_.job, options_.key, rank}, peers, deadline);
  if (!sockets.ok()) return sockets.status();
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (UniqueFd& socket : *sockets) endpoints.push_back(std::make_unique<TcpEndpoint>(std::move(socket)));
  return endpoints;
}

std::unique_ptr<Dialer> TcpTransport::dialer(int rank, std::span<const TransportPeer> peers) {
  const SocketKind& kind = *this;
  return std::make_unique<TcpDialer>(kind, Identity{options_.job, options_.key, rank}, peers);
}

std::vector<int> TcpTransport::listeners() const {
  std::vector<int> fds;
  for (const UniqueFd& fd : listeners_) fds.push_back(fd.get());
  return fds;
}

std::string TcpTransport::listening_at() const {
  std::string text;
  for (const SocketAddress& address : address_.at) text += (text.empty() ? "" : ", ") + address.text();
  return text;
}

std::vector<std::string> TcpTransport::candidates(std::string_view address) const {
  const auto parsed = Address::parse(address);
  std::vector<std::string> texts;
  if (!parsed) return texts;
  for (const SocketAddress& candidate : tcp::candidates(address_, *parsed)) texts.push_back(candidate.text());
  return texts;
}

Result<UniqueFd> TcpTransport::dial(const std::string& candidate) const {
  const auto to = SocketAddress::parse(candidate);
  if (!to) return Status(Code::system, "not an address");
  auto fd = open_socket(to->family());
  if (!fd.ok()) return fd;
  if (!options_.interface.empty()) {  // what was named goes for both directions
    for (SocketAddress from : address_.at) {
      if (from.family() != to->family() || from.is_loopback() != to->is_loopback()) continue;
      from.set_port(0);
      set(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
      if (::bind(fd->get(), from.data(), from.size()) != 0) return Status(Code::system, std::strerror(errno));
      break;
    }
  }
  if (::connect(fd->get(), to->data(), to->size()) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return Status(Code::system, std::strerror(errno));
  }
  return fd;
}

}  // namespace
}  // namespace tcp

Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportOptions& options) {
  auto listening = options.interface.empty() ? tcp::listen_everywhere() : tcp::listen_on(options.interface);
  if (!listening.ok()) return listening.status().prefixed("tcp");
  auto made = std::make_unique<tcp::TcpTransport>(options, std::move(*listening));
  if (options.interface.empty()) {
    log().info("tcp: no interface was named, so this rank listens on all of them and offers {}",
               made->address());
  } else {
    log().info("tcp: listens only on \"{}\", as told: {}", options.interface, made->address());
  }
  return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace kolo
