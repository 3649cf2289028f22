// The tcp transport: ranks on any hosts, through sockets.
#include "transport/transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "net/credentials.hpp"
#include "net/socket.hpp"
#include "transport/connector.hpp"
#include "transport/frame.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/endpoint.hpp"
#include "transport/tcp/place.hpp"
#include "transport/tcp/process_mark.hpp"
#include "transport/tcp/tls_endpoint.hpp"

namespace kolo::transport::tcp {
namespace {

/// "10.0.0.1:4000, [fd00::1]:4000"
std::string joined(const std::vector<net::SocketAddress>& addresses) {
  std::string text;
  for (const net::SocketAddress& address : addresses) text += (text.empty() ? "" : ", ") + address.text();
  return text;
}

/// Listens at free ports of the addresses, of `ports` if it names any, and changes them to those that others
/// can dial. An address that cannot be bound does not prevent listening at the other addresses. One case: an
/// IPv6 address for which the system still checks for duplicates.
Result<net::Listener> listen_at(std::vector<net::SocketAddress>& addresses, const PortRange& ports) {
  std::vector<UniqueFd> sockets;
  std::vector<net::SocketAddress> bound;
  Status trouble;
  for (net::SocketAddress address : addresses) {
    address.set_port(0);
    auto fd = net::listen_on(address, ports);
    if (!fd.ok()) {
      trouble = fd.status().prefixed("listening at " + address.host());
      continue;
    }
    address.set_port(net::local_port(fd->get()));
    sockets.push_back(std::move(*fd));
    bound.push_back(address);
  }
  if (bound.empty() && !trouble.ok()) return trouble;
  if (!trouble.ok()) log().info("tcp: {}", trouble.message());
  addresses = std::move(bound);
  return net::Listener("tcp at " + joined(addresses), std::move(sockets));
}

Result<Place> place_for(const TransportOptions& options) {
  auto here = local_addresses();
  if (!here.ok()) return here.status();
  const bool open = !options.key.empty() || options.insecure;
  if (options.interface.empty() && !open) {
    Place place = place_on_loopback(*here);
    place.why += ", since there is no key: set KOLO_KEY to reach other hosts";
    return place;
  }
  auto place = options.interface.empty() ? place_towards(options.store_host, *here)
                                         : place_named(options.interface, *here);
  if (!place.ok() || open) return place;
  for (const net::SocketAddress& address : place->at) {
    const net::Credentials none;
    if (Status allowed = none.allow(address.is_loopback(), address.host()); !allowed.ok()) return allowed;
  }
  return place;
}

class TcpTransport final : public Transport, private SocketKind {
 public:
  TcpTransport(const TransportOptions& options, Place place, net::Listener listener)
      : options_(options),
        credentials_{options.key, options.job, options.tls, options.insecure},
        address_{options.host, mark_.name(), std::move(place.at)},
        why_(std::move(place.why)),
        listener_(std::move(listener)) {}

  std::string_view name() const override { return "tcp"; }
  std::string address() const override { return address_.text(); }
  std::string host_address() const override {
    return address_.at.empty() || address_.at.front().is_loopback() ? std::string()
                                                                    : address_.at.front().host();
  }
  std::string place() const override { return joined(address_.at) + ": " + why_; }
  bool reaches(std::string_view one, std::string_view other) const override;
  std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) override;

 private:
  net::Listener& listener() override { return listener_; }
  std::string listening_at() const override { return joined(address_.at); }
  std::vector<std::string> candidates(std::string_view address) const override;
  Result<UniqueFd> dial(const std::string& candidate) const override;
  bool has_ended(std::string_view address) const override;
  Status admit(int fd) const override { return credentials_.admit(fd); }
  net::Identity identity(int rank) const {
    return {options_.job, options_.key, rank, net::encryption_of(options_.tls), kWireVersion};
  }

  TransportOptions options_;
  net::Credentials credentials_;
  const ProcessMark mark_;
  Address address_;
  std::string why_;  // at these addresses
  net::Listener listener_;
};

class TcpDialer final : public Connector {
 public:
  TcpDialer(SocketKind& kind, const net::Identity& me, std::span<const TransportPeer> peers,
            const TransportOptions& options)
      : Connector(kind, me, peers), options_(options) {}

  std::vector<Connected> progress() override {
    std::vector<Connected> connected;
    for (auto& [rank, socket] : advance()) {
      std::unique_ptr<Endpoint> endpoint =
          std::make_unique<TcpEndpoint>(std::move(socket.fd), options_.heartbeat);
      if (options_.tls) {
        endpoint = std::make_unique<TlsEndpoint>(std::move(endpoint), *options_.tls, socket.dialed,
                                                 std::move(socket.secret));
      }
      connected.push_back({rank, std::move(endpoint)});
    }
    return connected;
  }

 private:
  const TransportOptions& options_;
};

bool TcpTransport::reaches(std::string_view one, std::string_view other) const {
  const auto a = Address::parse(one), b = Address::parse(other);
  return a && b && !tcp::candidates(*a, *b).empty();
}

std::unique_ptr<Dialer> TcpTransport::dialer(int rank, std::span<const TransportPeer> peers) {
  SocketKind& kind = *this;
  return std::make_unique<TcpDialer>(kind, identity(rank), peers, options_);
}

std::vector<std::string> TcpTransport::candidates(std::string_view address) const {
  const auto parsed = Address::parse(address);
  std::vector<std::string> texts;
  if (!parsed) return texts;
  for (const net::SocketAddress& candidate : tcp::candidates(address_, *parsed))
    texts.push_back(candidate.text());
  return texts;
}

bool TcpTransport::has_ended(std::string_view address) const {
  const auto there = Address::parse(address);
  return there && there->host == address_.host && !there->mark.empty() && ProcessMark::has_ended(there->mark);
}

Result<UniqueFd> TcpTransport::dial(const std::string& candidate) const {
  const auto to = net::SocketAddress::parse(candidate);
  if (!to) return Status(Code::system, "not an address");
  auto fd = net::open_socket(to->family());
  if (!fd.ok()) return fd;
  if (!options_.interface.empty()) {  // an interface that was named holds for both directions
    for (net::SocketAddress from : address_.at) {
      if (from.family() != to->family() || from.is_loopback() != to->is_loopback()) continue;
      from.set_port(0);
      net::set_option(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
      if (::bind(fd->get(), from.data(), from.size()) != 0) return Status::from_errno("bind", errno);
      break;
    }
  }
  if (::connect(fd->get(), to->data(), to->size()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return connect_failure(errno);
  return fd;
}

}  // namespace
}  // namespace kolo::transport::tcp

namespace kolo::transport {

Status check_tcp_settings(const TransportOptions& options) {
  if (options.tls && options.key.empty()) {
    return Status(Code::invalid_argument, "tcp: TLS needs the job's key: set KOLO_KEY or KOLO_KEY_FILE");
  }
  if (options.interface.empty()) return {};
  const auto place = tcp::place_for(options);
  const bool is_wrong = place.status().code() == Code::invalid_argument;
  return is_wrong ? place.status().prefixed("tcp") : Status();
}

Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportOptions& options) {
  if (Status status = check_tcp_settings(options); !status.ok()) return status;
  auto place = tcp::place_for(options);
  if (!place.ok()) return place.status().prefixed("tcp");
  auto listener = tcp::listen_at(place->at, options.ports);
  if (!listener.ok()) return listener.status().prefixed("tcp");
  auto made = std::make_unique<tcp::TcpTransport>(options, std::move(*place), std::move(*listener));
  log().info("tcp: listens at {}", made->place());
  return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace kolo::transport
