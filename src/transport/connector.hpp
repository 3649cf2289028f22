// Connector: sockets between the ranks of a group, made when they are asked for and proved by Handshake;
// shared by the transports that use sockets.
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
#include "transport/attempt.hpp"
#include "transport/transport.hpp"

namespace kolo {

/// How one kind of socket is opened. All descriptors are non-blocking and close on exec.
class SocketKind {
 public:
  virtual ~SocketKind() = default;

  virtual std::string_view name() const = 0;
  virtual std::vector<int> listeners() const = 0;
  /// For messages: where the listeners are.
  virtual std::string listening_at() const = 0;
  /// The ways of reaching a peer with this address, best first; none when it makes no sense.
  virtual std::vector<std::string> candidates(std::string_view address) const = 0;
  /// Begins to connect to a candidate; the connect may still be in progress. Code::peer_lost where somebody
  /// who has listened there does so no more, another code where it or the way to it may come back.
  virtual Result<UniqueFd> dial(const std::string& candidate) const = 0;
  /// Whether the process at the other end of a connected socket may be a rank; the error says which it is.
  /// Asked of an accepted socket before the handshake, of a dialled one once its other end has answered.
  virtual Status admit(int fd) const = 0;
  /// Not empty where the process at the other end is known not to go on. Asked again and again while it is
  /// awaited.
  virtual std::string why_lost(int /*fd*/) const { return {}; }
};

/// What SocketKind::dial() says of connect()'s errno.
Status connect_failure(int error);

/// A socket on whose other side the right rank has proved itself.
struct ProvedSocket {
  UniqueFd fd;
  bool dialed = false;  ///< by us
  std::string secret;   ///< Handshake::secret()
};

/// Dials, and accepts whoever proves to be one of the peers. All connections make progress at once: one that
/// says nothing, or nonsense, holds nobody up. When two ranks dial each other at the same time, the higher
/// one's connection is used. Used by one thread at a time; `kind` must outlive it.
class Connector {
 public:
  struct Connected {
    int rank;
    ProvedSocket socket;
  };

  Connector(const SocketKind& kind, Identity me, std::span<const TransportPeer> peers);

  /// Dials the peer again and again, until it is connected; nothing new when it does so already.
  void dial(int rank);
  /// Polls readable when progress() has something to do. It also must be called when next_time() has come.
  int fd() const { return epoll_.get(); }
  Clock::time_point next_time() const;
  /// Those that are connected now. A rank may come twice: then it has given up the first connection.
  std::vector<Connected> progress();
  /// Not ok once the system has refused what no connection can do without.
  const Status& status() const { return status_; }
  /// What is known of a peer that is not connected: "dialled 10.0.0.1:4000: Connection refused".
  std::string known(int rank) const;
  /// For how long every dial to every candidate has been refused; zero when one has not. A network that is
  /// down for a moment refuses nothing.
  std::chrono::nanoseconds unreachable_for(int rank) const;
  std::uint64_t failed_attempts(int rank) const;
  /// Of a peer that has been dialled: SocketKind::why_lost().
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
    std::size_t refusals = 0;  // one after the other
    Clock::time_point unreachable_since{};
    std::uint64_t failed_attempts = 0;
    std::string known;  // what the last attempt ran into
  };

  Wanted* find(int rank);
  void control(int operation, int fd, std::uint32_t events);
  void watch(const Attempt& attempt, bool is_new);
  void unwatch(const Attempt& attempt);
  void end_attempt(Wanted& wanted);
  void drop_oldest_stranger();
  void begin(Wanted& wanted);
  void give_up(Wanted& wanted, const std::string& why);
  static void count_refusal(Wanted& wanted);
  void advance_dialled(Wanted& wanted, std::vector<Connected>& done);
  void report_dropped(const std::string& why, bool may_be_rank);
  void accept_from(int listener);
  void hurry_strangers();
  void advance_stranger(Attempt& stranger, std::vector<Connected>& done);
  bool is_turned_away(int claimed) const;
  void pause_listening(bool paused);

  const SocketKind& kind_;
  const Identity me_;
  UniqueFd epoll_;
  Status status_;
  std::string accept_error_;  // the last one
  std::map<int, Wanted> wanted_;
  std::list<Attempt> strangers_;  // accepted, oldest first
  Clock::time_point listen_at_{};
  bool listening_ = false;
  int warnings_ = 0;
};

/// Dials the peers of lower rank and, where they do not come, after a while the others too. The sockets come
/// in the order of `peers`; Code::rendezvous names the ranks that are missing at the deadline, or gone, with
/// where they were looked for. All must listen already: one that refuses for a second has ended.
Result<std::vector<ProvedSocket>> connect_all(const SocketKind& kind, const Identity& me,
                                              std::span<const TransportPeer> peers, const Deadline& deadline,
                                              const IsGone& is_gone);

}  // namespace kolo
