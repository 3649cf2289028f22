// The shm transport: ranks on one host, through shared memory.
#include "transport/transport.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/config.hpp"
#include "transport/connector.hpp"
#include "transport/frame.hpp"
#include "transport/missing.hpp"
#include "transport/shm/address.hpp"
#include "transport/shm/endpoint.hpp"

namespace kolo {
namespace shm {
namespace {

/// An abstract Unix address: it disappears with its socket, however the process ends.
socklen_t abstract(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Result<UniqueFd> open_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  return fd;
}

class ShmTransport final : public Transport, private SocketKind {
 public:
  ShmTransport(const TransportOptions& options, Address address, Listener listener)
      : job_(options.job), key_(options.key), address_(std::move(address)), listener_(std::move(listener)) {}

  std::string_view name() const override { return "shm"; }
  std::string address() const override { return address_.text(); }
  bool reaches(std::string_view one, std::string_view other) const override;
  Result<std::vector<std::unique_ptr<Endpoint>>> connect(int rank, std::span<const TransportPeer> peers,
                                                         const Deadline& deadline,
                                                         const IsGone& is_gone) override;

 private:
  Listener& listener() override { return listener_; }
  std::string listening_at() const override { return "@" + address_.socket; }
  std::vector<std::string> candidates(std::string_view address) const override;
  Result<UniqueFd> dial(const std::string& candidate) const override;
  Status admit(int fd) const override;
  std::string why_lost(int fd) const override { return stopped_.why_lost(peer_process(fd)); }

  mutable StoppedProcesses stopped_{config().heartbeat};
  std::string job_, key_;
  Address address_;
  Listener listener_;
};

bool ShmTransport::reaches(std::string_view one, std::string_view other) const {
  const auto a = Address::parse(one), b = Address::parse(other);
  return a && b && same_place(*a, *b);
}

Result<std::vector<std::unique_ptr<Endpoint>>> ShmTransport::connect(int rank,
                                                                     std::span<const TransportPeer> peers,
                                                                     const Deadline& deadline,
                                                                     const IsGone& is_gone) {
  auto sockets =
      connect_all(*this, {job_, key_, rank, Encryption::none, kWireVersion}, peers, deadline, is_gone);
  if (!sockets.ok()) return sockets.status();
  auto segment = OwnSegment::make();
  if (!segment.ok()) return segment.status().prefixed("shm");
  std::vector<Pairing> pairings;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const pid_t pid = peer_process((*sockets)[i].fd.get());
    pairings.push_back(
        {NoticeSocket(std::move((*sockets)[i].fd)), rank < peers[i].rank, pid, *segment, {}, {}, false});
  }
  std::map<int, std::string> missing;
  for (PairingFailure& failure : settle(pairings, stopped_, deadline)) {
    missing[peers[failure.index].rank] = std::move(failure.known);
  }
  if (!missing.empty()) return ranks_missing("shm", rank, missing);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (Pairing& pairing : pairings) endpoints.push_back(std::make_unique<ShmEndpoint>(std::move(pairing)));
  return endpoints;
}

std::vector<std::string> ShmTransport::candidates(std::string_view address) const {
  const auto parsed = Address::parse(address);
  if (!parsed || !same_place(*parsed, address_)) return {};
  return {"@" + parsed->socket};
}

Result<UniqueFd> ShmTransport::dial(const std::string& candidate) const {
  auto fd = open_socket();
  if (!fd.ok()) return fd;
  sockaddr_un address;
  const socklen_t length = abstract(candidate.substr(1), address);
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return connect_failure(errno);
  return fd;
}

Status ShmTransport::admit(int fd) const {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return Status::from_errno("its user is unknown", errno);
  if (credentials.uid == ::geteuid()) return {};
  return Status(Code::rendezvous,
                "a process of user " + std::to_string(credentials.uid) + ", which may not share memory");
}

}  // namespace
}  // namespace shm

Result<std::unique_ptr<Transport>> make_shm_transport(const TransportOptions& options) {
  if (auto probe = shm::make_memfd("kolo-probe", 1); !probe.ok()) return probe.status().prefixed("shm");
  auto fd = shm::open_socket();
  if (!fd.ok()) return fd.status().prefixed("shm");
  auto address = shm::Address::make();
  sockaddr_un name;
  const socklen_t length = shm::abstract(address.socket, name);
  if (::bind(fd->get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 ||
      ::listen(fd->get(), SOMAXCONN) != 0) {
    return Status::from_errno("shm: listening at @" + address.socket, errno);
  }
  Listener listener("shm at @" + address.socket, std::move(*fd));
  return std::unique_ptr<Transport>(
      std::make_unique<shm::ShmTransport>(options, std::move(address), std::move(listener)));
}

}  // namespace kolo
