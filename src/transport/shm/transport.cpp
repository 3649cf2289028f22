// The shm transport: ranks on one host, through shared memory.
#include "transport/transport.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>

#include "net/event_set.hpp"
#include "net/random.hpp"
#include "net/socket.hpp"
#include "transport/connector.hpp"
#include "transport/frame.hpp"
#include "transport/shm/address.hpp"
#include "transport/shm/endpoint.hpp"
#include "transport/shm/pairing.hpp"
#include "transport/stopped.hpp"

namespace kolo::transport::shm {
namespace {

Result<UniqueFd> open_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  return fd;
}

class ShmTransport final : public Transport, private SocketKind {
 public:
  ShmTransport(const TransportOptions& options, Address address, net::Listener listener)
      : stopped_(options.heartbeat),
        job_(options.job),
        key_(options.key),
        segment_bytes_(options.segment_bytes),
        address_(std::move(address)),
        listener_(std::move(listener)) {}

  std::string_view name() const override { return "shm"; }
  std::string address() const override { return address_.text(); }
  bool reaches(std::string_view one, std::string_view other) const override;
  std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) override;

 private:
  net::Listener& listener() override { return listener_; }
  std::string listening_at() const override { return "@" + address_.socket; }
  std::vector<std::string> candidates(std::string_view address) const override;
  Result<UniqueFd> dial(const std::string& candidate) const override;
  bool connects_at_once() const override { return true; }
  Status admit(int fd) const override;
  std::string why_lost(int fd) const override { return stopped_.why_lost(peer_process(fd)); }

  mutable StoppedProcesses stopped_;
  std::string job_, key_;
  std::size_t segment_bytes_;
  Address address_;
  net::Listener listener_;
};

bool ShmTransport::reaches(std::string_view one, std::string_view other) const {
  const auto a = Address::parse(one), b = Address::parse(other);
  return a && b && same_place(*a, *b);
}

/// Pairs what the Connector has authenticated, all pairs at once. Descriptors in flight between processes
/// count against their user's RLIMIT_NOFILE (except for root) until they are received. So a waiting rank
/// takes in what has come from all peers. Otherwise ranks could wait for ever for each other's room.
class ShmDialer final : public Connector {
 public:
  ShmDialer(SocketKind& kind, const net::Identity& me, std::span<const TransportPeer> peers,
            std::size_t segment_bytes)
      : Connector(kind, me, peers), kind_(kind) {
    auto memory = HostMemory::make(peers.size(), segment_bytes);
    memory.status().prefixed("shm").throw_if_error();  // before any peer has connected in vain
    memory_ = std::move(*memory);
    for (const TransportPeer& peer : peers) numbers_.try_emplace(peer.rank, numbers_.size());
    net::fill_random(nonce_);
    events_.add(Connector::fd(), kConnector).throw_if_error();
  }

  int fd() const override { return events_.fd(); }

  void dial(int rank) override {
    if (!pairings_.contains(rank)) Connector::dial(rank);  // else the two are connected, and only slow
  }

  Clock::time_point next_time() const override {
    for (const auto& [rank, pairing] : pairings_) {
      if (pairing.waits_for_room()) return Clock::now() + std::chrono::milliseconds(1);
    }
    return Connector::next_time();
  }

  std::vector<Connected> progress() override {
    // Only pairings with something to do are tried: each try is a system call, and there are as many pairings
    // as ranks.
    std::set<int> due;
    for (auto& [rank, socket] : advance()) {
      if (Status begun = begin(rank, std::move(socket)); !begun.ok()) failures_[rank] = begun.message();
      due.insert(rank);
    }
    for (const std::uint32_t number : events_.wait(0)) {
      if (number != kConnector) due.insert(static_cast<int>(number) - 1);
    }
    for (const auto& [rank, pairing] : pairings_) {
      if (pairing.waits_for_room()) due.insert(rank);
    }
    std::vector<Connected> connected;
    for (const int rank : due) {
      const auto at = pairings_.find(rank);
      if (at == pairings_.end()) continue;
      Pairing& pairing = at->second;
      const auto done = pairing.progress();
      if (done.ok() && !*done) continue;
      events_.remove(pairing.fd());
      if (done.ok()) {
        connected.push_back({rank, std::make_unique<ShmEndpoint>(pairing.take())});
      } else {
        failures_[rank] = done.status().message();
      }
      pairings_.erase(at);
    }
    return connected;
  }

  std::string known(int rank) const override {
    if (const auto failed = failures_.find(rank); failed != failures_.end()) return failed->second;
    const auto pairing = pairings_.find(rank);
    if (pairing == pairings_.end()) return Connector::known(rank);
    return pairing->second.waits_for_room()
               ? "this user's processes pass on too many descriptors; raise ulimit -n"
               : "it does not go on connecting";
  }

  std::string why_lost(int rank) const override {
    if (failures_.contains(rank)) return known(rank);
    const auto pairing = pairings_.find(rank);
    return pairing == pairings_.end() ? Connector::why_lost(rank) : kind_.why_lost(pairing->second.fd());
  }

 private:
  /// If the two ranks have dialled each other, both keep the connection that the higher one dialled.
  Status begin(int rank, AuthenticatedSocket socket) {
    if (const auto former = pairings_.find(rank); former != pairings_.end()) {
      const bool is_from_higher = socket.dialed == (own_rank() > rank);
      if (!is_from_higher) return {};
      events_.remove(former->second.fd());
    }
    const auto number = static_cast<std::uint32_t>(rank) + 1;
    if (Status watched = events_.add(socket.fd.get(), number); !watched.ok()) return watched;
    pairings_.insert_or_assign(rank, Pairing(std::move(socket.fd), memory_, numbers_.at(rank), nonce_));
    return {};
  }

  static constexpr std::uint32_t kConnector = 0;  // in the event set; a pairing's number is 1 + the rank

  SocketKind& kind_;
  net::EventSet events_;
  std::byte nonce_[sizeof(Notice::nonce)];  // peers read it to find out whether they can
  std::shared_ptr<HostMemory> memory_;
  std::map<int, std::size_t> numbers_;  // of the ranks, in `memory_`
  std::map<int, Pairing> pairings_;
  std::map<int, std::string> failures_;
};

std::unique_ptr<Dialer> ShmTransport::dialer(int rank, std::span<const TransportPeer> peers) {
  SocketKind& kind = *this;
  return std::make_unique<ShmDialer>(
      kind, net::Identity{job_, key_, rank, net::Encryption::none, kWireVersion}, peers, segment_bytes_);
}

std::vector<std::string> ShmTransport::candidates(std::string_view address) const {
  const auto parsed = Address::parse(address);
  if (!parsed || !same_place(*parsed, address_)) return {};
  return {"@" + parsed->socket};
}

Result<UniqueFd> ShmTransport::dial(const std::string& candidate) const {
  auto fd = open_socket();
  if (!fd.ok()) return fd;
  const int error = net::call_with_abstract_address(::connect, fd->get(), candidate.substr(1));
  if (error != 0) return connect_failure(error);
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
}  // namespace kolo::transport::shm

namespace kolo::transport {

Result<std::unique_ptr<Transport>> make_shm_transport(const TransportOptions& options) {
  if (auto probe = shm::make_memfd("kolo-probe", 1); !probe.ok()) return probe.status().prefixed("shm");
  auto fd = shm::open_socket();
  if (!fd.ok()) return fd.status().prefixed("shm");
  auto address = shm::Address::make(options.host);
  int error = net::call_with_abstract_address(::bind, fd->get(), address.socket);
  if (error == 0 && ::listen(fd->get(), SOMAXCONN) != 0) error = errno;
  if (error != 0) return Status::from_errno("shm: listening at @" + address.socket, error);
  net::Listener listener("shm at @" + address.socket, std::move(*fd));
  return std::unique_ptr<Transport>(
      std::make_unique<shm::ShmTransport>(options, std::move(address), std::move(listener)));
}

}  // namespace kolo::transport
