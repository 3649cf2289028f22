// Connector: sockets between the ranks of a group, made on demand and authenticated by Handshake. Shared by
// the transports that use sockets.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "net/listener.hpp"
#include "transport/attempt.hpp"
#include "transport/transport.hpp"

namespace kolo::transport {

/// How one kind of socket is opened. All descriptors are non-blocking and close on exec.
class SocketKind {
 public:
  virtual ~SocketKind() = default;

  virtual std::string_view name() const = 0;
  virtual net::Listener& listener() = 0;
  /// For messages: where it listens.
  virtual std::string listening_at() const = 0;
  /// The ways of reaching a peer with this address, best first; none if the address makes no sense.
  virtual std::vector<std::string> candidates(std::string_view address) const = 0;
  /// Begins to connect to a candidate; the connect may still be in progress. Code::peer_lost: a process that
  /// listened there no longer does. Any other code: it, or the way to it, may come back.
  virtual Result<UniqueFd> dial(const std::string& candidate) const = 0;
  /// Whether the process that has given this address is known to listen there no more, even if another one
  /// does at the same port.
  virtual bool has_ended(std::string_view /*address*/) const { return false; }
  /// Whether what dial() returns is connected already.
  virtual bool connects_at_once() const { return false; }
  /// Whether the process at the other end of a connected socket may be a rank; the error describes that
  /// process. Called for an accepted socket before the handshake, for a dialled one after its other end has
  /// answered.
  virtual Status admit(int fd) const = 0;
  /// Not empty if the process at the other end is known not to continue. Called repeatedly while the caller
  /// waits for it. Within a host, StoppedProcesses knows; over a network, the engine's heartbeats decide.
  virtual std::string why_lost(int /*fd*/) const { return {}; }
};

/// What SocketKind::dial() says of connect()'s errno.
Status connect_failure(int error);

/// A socket whose other end has authenticated as the right rank.
struct AuthenticatedSocket {
  UniqueFd fd;
  bool dialed = false;  ///< by this rank
  std::string secret;   ///< Handshake::secret(); empty if the connection is not encrypted
};

/// Dials peers, and accepts connections that authenticate as one of the peers. All connections make progress
/// at once: a connection that is silent or sends nonsense delays no other. If two ranks dial each other at
/// the same time, the higher one's connection is used. progress() is for each transport to add: it makes
/// endpoints of authenticated sockets. Used by one thread at a time; `kind` must outlive it.
class Connector : public Dialer, private net::Listener::Owner {
 public:
  Connector(SocketKind& kind, net::Identity me, std::span<const TransportPeer> peers);

  void dial(int rank) override;
  int fd() const override { return epoll_.get(); }
  Clock::time_point next_time() const override;
  std::string known(int rank) const override;
  std::string why_lost(int rank) const override;
  std::chrono::nanoseconds unreachable_for(int rank) const override;
  std::uint64_t failed_attempts(int rank) const override;

 protected:
  struct Authenticated {
    int rank;
    AuthenticatedSocket socket;
  };
  /// The peers that have authenticated since the last call. A rank that comes twice has given up its first
  /// connection.
  std::vector<Authenticated> advance();
  int own_rank() const { return me_.rank; }

 private:
  struct Wanted {
    TransportPeer peer;
    std::vector<std::string> candidates;
    std::size_t next = 0;  // candidate
    bool dials = false;
    bool connected = false;  // once
    Clock::time_point retry_at{};
    std::chrono::milliseconds pause{};
    std::unique_ptr<Attempt> attempt;
    std::size_t refusals = 0;  // in a row
    Clock::time_point unreachable_since{};
    std::uint64_t failed_attempts = 0;
    std::string known;  // how the last attempt failed
  };

  Status admit(int fd) const override { return kind_.admit(fd); }
  void accepted(UniqueFd fd) override;
  std::size_t strangers() const override { return strangers_.size(); }
  std::size_t most_strangers() const override { return Owner::most_strangers() + wanted_.size(); }
  void drop_strangers(std::size_t count) override;

  Wanted* find(int rank);
  void control(int operation, int fd, std::uint32_t events);
  void watch(Attempt& attempt, bool is_new);
  std::string secret_of(const Attempt& attempt) const;
  void unwatch(const Attempt& attempt);
  void end_attempt(Wanted& wanted);
  void begin(Wanted& wanted);
  void give_up(Wanted& wanted, const std::string& why);
  static void count_refusal(Wanted& wanted);
  void advance_dialled(Wanted& wanted, std::vector<Authenticated>& done);
  void advance_stranger(Attempt& stranger, std::vector<Authenticated>& done);
  bool is_turned_away(int claimed) const;

  SocketKind& kind_;
  const net::Identity me_;
  UniqueFd epoll_;
  Status status_;
  std::map<int, Wanted> wanted_;
  std::list<Attempt> strangers_;  // accepted, not authenticated, oldest first
};

}  // namespace kolo::transport
