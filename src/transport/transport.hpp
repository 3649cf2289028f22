// Transport: one way of reaching other ranks, and the list of all transports.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "base/deadline.hpp"
#include "base/status.hpp"
#include "transport/endpoint.hpp"

namespace kolo {
struct Config;
}  // namespace kolo

namespace kolo::net {
class Tls;
}  // namespace kolo::net

namespace kolo::transport {

struct TransportPeer {
  int rank = -1;
  std::string address;  ///< what that rank's address() returned
};

/// Whether a rank is known to have ended. Called repeatedly while a caller waits for that rank; null: never
/// known.
using IsGone = std::function<bool(int rank)>;

/// One rank's connections of a transport, each made on demand. Both sides of a connection authenticate (the
/// job's key, the ranks) before anything else. Used by one thread at a time.
class Dialer {
 public:
  struct Connected {
    int rank;
    std::unique_ptr<Endpoint> endpoint;
  };

  virtual ~Dialer() = default;

  /// Begins to connect to a peer. Does nothing if that peer is being dialled already. One side may dial, or
  /// both.
  virtual void dial(int rank) = 0;
  /// Polls readable when progress() has something to do. Also call progress() at next_time().
  virtual int fd() const = 0;
  virtual Clock::time_point next_time() const = 0;
  /// The peers that have connected since the last call, whichever side dialled. Drops connections from
  /// strangers.
  virtual std::vector<Connected> progress() = 0;
  /// What is known of a peer that is not connected, for log messages.
  virtual std::string known(int rank) const = 0;
  /// Not empty if the peer is known not to come. Called repeatedly while the caller waits for it.
  virtual std::string why_lost(int rank) const = 0;
  /// How long every attempt to reach the peer has been refused; zero if one has not been.
  virtual std::chrono::nanoseconds unreachable_for(int rank) const = 0;
  /// Failed attempts to reach the peer; another attempt followed each of them.
  virtual std::uint64_t failed_attempts(int rank) const = 0;
};

/// One rank's side of a transport, made for one group of ranks. Listens from construction to destruction.
/// Used by one thread at a time. Endpoints may outlive it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  /// What other ranks need in order to connect; published in the store. Printable, at most 1 KiB.
  virtual std::string address() const = 0;
  /// Whether ranks with these two addresses can reach each other. Symmetric. Depends on the addresses alone,
  /// so both sides get the same answer.
  virtual bool reaches(std::string_view one, std::string_view other) const = 0;
  /// The network address of this rank's host, without port, for other ranks; empty if there is none.
  virtual std::string host_address() const { return {}; }
  /// Where it listens for other hosts, and why there, for messages; empty if it does not.
  virtual std::string place() const { return {}; }
  /// The connections of this rank. Must not outlive the transport.
  virtual std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) = 0;
};

/// Connects to all of `peers`; the endpoints have their order. Both ranks of a pair call it at the same time:
/// the higher rank dials the lower and, if the higher has not come after a while, the lower dials too. All
/// ranks must listen already: one that refuses for a second has ended. Code::rendezvous names the ranks that
/// have not come by the deadline, or that are gone, and the addresses that were tried.
Result<std::vector<std::unique_ptr<Endpoint>>> connect_all(Transport& transport, int rank,
                                                           std::span<const TransportPeer> peers,
                                                           const Deadline& deadline,
                                                           const IsGone& is_gone = {});

/// What a transport needs to know to start listening.
struct TransportOptions {
  std::string job;        ///< the same on all ranks of a group, different between groups
  std::string key;        ///< the job's secret; may be empty
  std::string interface;  ///< for tcp: interface name, address or subnet to bind; empty: chosen
  PortRange ports = {};   ///< for tcp: where to listen
  /// HostMark::name(): only transports that have the same one use shared memory and loopback.
  std::string host = "here";
  /// For tcp, to choose an interface: the host of the store, which all ranks reach; empty if there is none.
  std::string store_host = {};
  bool insecure = false;                     ///< for tcp: other hosts may connect although there is no key
  std::shared_ptr<const net::Tls> tls = {};  ///< for tcp: how to encrypt; null: not at all
  /// For shm and tcp: a peer that is stopped, or whose host is silent, for so long is lost; 0: never.
  std::chrono::nanoseconds heartbeat{0};
  /// For shm: size of each rank's segment, the same on all ranks. 0: no segments, so no
  /// Endpoint::local_peer().
  std::size_t segment_bytes = 0;
};

/// Options from the settings: TLS, interface, heartbeat. The other arguments: as above.
Result<TransportOptions> make_transport_options(const Config& config, std::string key, std::string job,
                                                std::string store_host, std::string host);

/// How far apart two ranks may be.
enum class Reach { process, host, network };

/// A kind of transport. `make` fails with a reason if this machine does not support it. `check` finds
/// settings for which `make` would return Code::invalid_argument, without using the network.
struct TransportFactory {
  std::string_view name;
  std::string_view purpose;
  /// Links that reach beyond a host are connected on demand; all others at once.
  Reach reach;
  bool pulls;          ///< Endpoint::can_pull() of all its endpoints; never if they are connected on demand
  bool shares_memory;  ///< its endpoints have a local_peer(), if the options ask for segments
  Result<std::unique_ptr<Transport>> (*make)(const TransportOptions& options);
  Status (*check)(const TransportOptions& options);
};

/// All kinds, fastest first. Without KOLO_TRANSPORTS, the first one that reaches a peer links to it.
std::span<const TransportFactory> transport_factories();
/// Null if there is none of that name.
const TransportFactory* find_transport(std::string_view name);
/// The first kind that reaches so far, which is the fastest.
const TransportFactory& fastest_transport(Reach reach);
/// The kinds that reach at least so far.
std::vector<std::string> transport_names(Reach reach = Reach::process);

/// The factory function of each transport.
Result<std::unique_ptr<Transport>> make_inproc_transport(const TransportOptions& options);
Result<std::unique_ptr<Transport>> make_shm_transport(const TransportOptions& options);
Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportOptions& options);
Status check_tcp_settings(const TransportOptions& options);

}  // namespace kolo::transport
