// Transport: one way of reaching other ranks, and the list of those there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "transport/endpoint.hpp"

namespace kolo {

class Tls;

struct TransportPeer {
  int rank = -1;
  std::string address;  ///< what that rank's address() returned
};

/// Whether a rank is known to have ended, asked now and then while it is waited for; null: nothing is known.
using IsGone = std::function<bool(int rank)>;

/// One rank's connections of a transport, made when they are asked for. Used by one thread at a time.
class Dialer {
 public:
  struct Connected {
    int rank;
    std::unique_ptr<Endpoint> endpoint;
  };

  virtual ~Dialer() = default;

  /// Begins to connect to a peer; nothing new when it is being dialled already. Either side may dial, or
  /// both.
  virtual void dial(int rank) = 0;
  /// Polls readable when progress() has something to do. It also must be called when next_time() has come.
  virtual int fd() const = 0;
  virtual Clock::time_point next_time() const = 0;
  /// The peers that are connected now, whoever has dialled. Strangers are dropped and do not harm.
  virtual std::vector<Connected> progress() = 0;
  /// What is known of a peer that is not connected, for people.
  virtual std::string known(int rank) const = 0;
  /// For how long every attempt to reach it has been refused or has led nowhere; zero when the last has not.
  virtual std::chrono::nanoseconds unreachable_for(int rank) const = 0;
  /// Attempts to reach it that have failed; each was followed by another one.
  virtual std::uint64_t failed_attempts(int rank) const = 0;
};

/// One rank's side of a transport, made for one group of ranks; listens from construction to destruction.
/// Used by one thread at a time. Endpoints may outlive it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  /// What other ranks need to know, to be published in the store. Printable, at most 1 KiB.
  virtual std::string address() const = 0;
  /// Whether ranks with these two addresses can reach each other. Symmetric; decides from the addresses
  /// alone, so that both sides decide the same.
  virtual bool reaches(std::string_view one, std::string_view other) const = 0;
  /// The network address, without port, by which this rank's host is known to others; empty where there is
  /// none.
  virtual std::string host_address() const { return {}; }
  /// Connects to all of `peers`, in their order. Every pair of ranks that choose this transport for each
  /// other calls it at the same time: the higher rank dials, the lower accepts. Proves identity both ways
  /// (the job's key, the ranks) before anything else. Strangers that connect are dropped and do not harm.
  /// Code::rendezvous that names the ranks that did not come at the deadline, or as soon as one is gone.
  virtual Result<std::vector<std::unique_ptr<Endpoint>>> connect(int rank,
                                                                 std::span<const TransportPeer> peers,
                                                                 const Deadline& deadline,
                                                                 const IsGone& is_gone = {}) = 0;
  /// The same, but a pair is connected only when one of the two ranks asks for it. Null where the transport
  /// connects all at once. Must not outlive the transport.
  virtual std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) {
    static_cast<void>(rank), static_cast<void>(peers);
    return nullptr;
  }
};

/// What a transport needs to know to start listening.
struct TransportOptions {
  std::string job;        ///< the same on all ranks of a group, different between groups
  std::string key;        ///< the job's secret; may be empty
  std::string interface;  ///< for tcp: interface name, address or subnet to bind; empty: chosen
  /// For tcp, to choose: the host of the store, which the others reach as well; empty where there is none.
  std::string store_host = {};
  bool insecure = false;                ///< for tcp: other hosts may connect although there is no key
  std::shared_ptr<const Tls> tls = {};  ///< for tcp: how to encrypt; null: not at all
};

/// With what the settings say of keys, TLS and interfaces. `store_host`: as above.
Result<TransportOptions> make_transport_options(std::string job, std::string store_host);

/// A kind of transport. `make` fails with a reason where this machine cannot have it. `check` finds the
/// settings that would be Code::invalid_argument for `make`, without the network.
struct TransportFactory {
  std::string_view name;
  std::string_view purpose;
  Result<std::unique_ptr<Transport>> (*make)(const TransportOptions& options);
  Status (*check)(const TransportOptions& options);
};

/// All of them: inproc, shm, tcp.
std::span<const TransportFactory> transport_factories();

/// The factories of each room.
Result<std::unique_ptr<Transport>> make_inproc_transport(const TransportOptions& options);
Result<std::unique_ptr<Transport>> make_shm_transport(const TransportOptions& options);
Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportOptions& options);
Status check_tcp_settings(const TransportOptions& options);

}  // namespace kolo
