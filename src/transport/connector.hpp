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

namespace kolo {

/// How one kind of socket is opened. All descriptors are non-blocking and close on exec.
class SocketKind {
 public:
  virtual ~SocketKind() = default;

  virtual std::string_view name() const = 0;
  virtual Listener& listener() = 0;
  /// For messages: where it listens.
  virtual std::string listening_at() const = 0;
  /// The ways of reaching a peer with this address, best first; none if the address makes no sense.
  virtual std::vector<std::string> candidates(std::string_view address) const = 0;
  /// Begins to connect to a candidate; the connect may still be in progress. Code::peer_lost: a process that
  /// listened there no longer does. Any other code: it, or the way to it, may come back.
  virtual Result<UniqueFd> dial(const std::string& candidate) const = 0;
  /// Whether the process at the other end of a connected socket may be a rank; the error describes that
  /// process. Called for an accepted socket before the handshake, for a dialled one after its other end has
  /// answered.
  virtual Status admit(int fd) const = 0;
  /// Not empty if the process at the other end is known not to continue. Called repeatedly while the caller
  /// waits for it.
  virtual std::string why_lost(int /*fd*/) const { return {}; }
};

/// What SocketKind::dial() says of connect()'s errno.
Status connect_failure(int error);

/// A socket whose other end has authenticated as the right rank.
struct AuthenticatedSocket {
  UniqueFd fd;
  bool dialed = false;  ///< by this rank
  std::string secret;   ///< Handshake::secret()
};

/// Dials peers, and accepts connections that authenticate as one of the peers. All connections make progress
/// at once: a connection that is silent or sends nonsense delays no other. If two ranks dial each other at
/// the same time, the higher one's connection is used. Used by one thread at a time; `kind` must outlive it.
class Connector : private Listener::Owner {
 public:
  struct Connected {
    int rank;
    AuthenticatedSocket socket;
  };

  Connector(SocketKind& kind, Identity me, std::span<const TransportPeer> peers);

  /// Dials the peer repeatedly until it is connected. Does nothing if the peer is being dialled already.
  void dial(int rank);
  /// Polls readable when progress() has something to do. Also call progress() at next_time().
  int fd() const { return epoll_.get(); }
  Clock::time_point next_time() const;
  /// The peers that have connected since the last call. A rank that comes twice has given up its first
  /// connection.
  std::vector<Connected> progress();
  /// Not ok after a system call failed that every connection needs.
  const Status& status() const { return status_; }
  /// What is known of a peer that is not connected: "dialled 10.0.0.1:4000: Connection refused".
  std::string known(int rank) const;
  /// How long every dial to every candidate has been refused; zero if one has not. A network that is down for
  /// a moment refuses nothing.
  std::chrono::nanoseconds unreachable_for(int rank) const;
  std::uint64_t failed_attempts(int rank) const;
  /// SocketKind::why_lost() of a peer that has been dialled.
  std::string why_lost(int rank) const;

 private:
  struct Wanted {
    TransportPeer peer;
    std::vector<std::string> candidates;
    std::size_t next = 0;  // candidate
    bool dials = false;
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
  void watch(const Attempt& attempt, bool is_new);
  void unwatch(const Attempt& attempt);
  void end_attempt(Wanted& wanted);
  void begin(Wanted& wanted);
  void give_up(Wanted& wanted, const std::string& why);
  static void count_refusal(Wanted& wanted);
  void advance_dialled(Wanted& wanted, std::vector<Connected>& done);
  void advance_stranger(Attempt& stranger, std::vector<Connected>& done);
  bool is_turned_away(int claimed) const;

  SocketKind& kind_;
  const Identity me_;
  UniqueFd epoll_;
  Status status_;
  std::map<int, Wanted> wanted_;
  std::list<Attempt> strangers_;  // accepted, not authenticated, oldest first
};

/// Dials the peers of lower rank and, if the higher ones have not come after a while, those too. Returns the
/// sockets in the order of `peers`. Code::rendezvous names the ranks that are missing at the deadline, or
/// gone, and the addresses that were tried. All ranks must listen already: one that refuses for a second has
/// ended.
Result<std::vector<AuthenticatedSocket>> connect_all(SocketKind& kind, const Identity& me,
                                                     std::span<const TransportPeer> peers,
                                                     const Deadline& deadline, const IsGone& is_gone);

}  // namespace kolo
