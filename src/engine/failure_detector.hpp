// FailureDetector: which ranks are lost, silent, absent or late, judged by times and counts alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "engine/control.hpp"

namespace kolo::engine {

/// Counts that grow while a peer lives.
struct SignsOfLife {
  std::uint64_t read = 0;       ///< bytes of any kind that have come from it
  std::uint64_t delivered = 0;  ///< bytes that have reached its host
  std::uint64_t elsewhere = 0;  ///< payload that has moved over this rank's network links to other peers
};

struct PeerState {
  bool has_left = false;                   ///< said goodbye
  bool has_ended = false;                  ///< its link has
  bool is_awaited = false;                 ///< a posted request needs it
  bool has_buffered = false;               ///< data that came from it is being taken in
  std::uint64_t payload_moved = 0;         ///< both ways
  std::chrono::nanoseconds refused_for{};  ///< how long each attempt to connect to it has been refused
  bool was_cut = false;                    ///< it had been connected before
};

/// What the detector sees of the other ranks, and how it asks them.
class MonitoredPeers {
 public:
  virtual ~MonitoredPeers() = default;
  virtual SignsOfLife signs_of(int peer) const = 0;
  virtual PeerState state_of(int peer) const = 0;
  /// The answer comes to FailureDetector::on_pong().
  virtual void ping(int peer, const Ping& ping) = 0;
  /// For messages.
  virtual std::string name_of(int peer) const = 0;
  /// The other ranks of its host, if that is not this rank's own.
  virtual std::vector<int> ranks_beside(int peer) const = 0;
  /// For messages: the transport, or why there is no connection.
  virtual std::string connection_to(int peer) const = 0;
  /// The tag of a message that has come from the peer and for which no recv is posted.
  virtual std::optional<std::uint32_t> unmatched_tag(int peer, std::uint32_t context) const = 0;
};

/// An operation that waits.
struct WaitingCall {
  enum class Kind { collective, send, receive, receive_from_any, probe };

  const void* operation;  ///< identifies it
  Kind kind;
  std::chrono::nanoseconds timeout;  ///< longest time without progress; other ranks may have others
  bool is_without_messages;          ///< a collective in shared memory, or what ranks do without the engine
  Ping ping;                         ///< asks a peer about it
  const std::vector<int>& ranks;
  std::vector<int> awaited;  ///< of `ranks`; may contain this rank
  Clock::time_point& last_progress;
};

/// Pings the peers of operations that wait and decides, from the answers and from what it sees of the peers,
/// which operation has failed and which rank is to blame. Has no clock: the caller passes the time.
class FailureDetector {
 public:
  /// Without a heartbeat (0) no peer counts as silent. `peers` outlives the detector.
  FailureDetector(int rank, int size, std::chrono::nanoseconds heartbeat, MonitoredPeers& peers);

  /// A peer that is gone, or cannot be reached, although this rank needs it. `awaited`: peers that this rank
  /// needs without a posted request.
  std::optional<Failure> find_gone(const std::vector<int>& awaited) const;
  /// A call of this timeout without progress for less than this time needs no check().
  std::chrono::nanoseconds patience(std::chrono::nanoseconds timeout) const noexcept;
  /// To be called repeatedly while an operation waits: asks the peers where they are. Returns why the
  /// operation has failed, if it has. Sets `last_progress` of a call whose data moves, however slowly.
  std::optional<Failure> check(const WaitingCall& call, Clock::time_point now);
  /// After 10 s, 20 s, 40 s and so on: which ranks are missing; otherwise empty, and on other ranks than the
  /// call's first one.
  std::string missing_ranks(const WaitingCall& call, Clock::time_point now);
  /// Whether no byte has come from the peer, or reached it, for a heartbeat. Pings the peer. To be called
  /// repeatedly while this rank waits for the peer, from the first beat of the wait on.
  bool is_silent(int peer, const Ping& ping, Clock::time_point now);
  /// A silent peer, and the ranks of its host that are silent too: the host may have vanished.
  std::vector<int> silent_with(int peer, Clock::time_point now);
  bool is_unreachable(int peer) const;
  void on_pong(int peer, const Pong& pong, Clock::time_point now);
  /// The operation has ended.
  void forget(const void* operation) {
    if (!inquiries_.empty()) inquiries_.erase(operation);
  }
  void forget_all() { inquiries_.clear(); }

 private:
  struct Liveness {
    SignsOfLife signs;
    Clock::time_point heard;
    Clock::time_point asked;
    Clock::time_point looked;
    Clock::time_point busy;  // when `signs.elsewhere` last grew
  };
  struct Answer {
    Pong pong;
    Clock::time_point at;
    Clock::time_point deadline;  ///< of the peer's own call
  };
  /// What the peers have been asked, and have answered, about a call while it makes no progress.
  struct Inquiry {
    const Pong* answer_of(int peer, Clock::time_point since) const;

    Ping ping;
    Clock::time_point since;  // the call's last progress
    std::chrono::nanoseconds next_warning;
    Clock::time_point asked{};
    Clock::time_point asked_finally{};     // shortly before the deadline
    std::map<int, std::uint64_t> moved{};  // payload that had moved by then, by peer
    std::map<int, Answer> answers{};       // the latest of each peer
  };

  Inquiry& inquiry_of(const WaitingCall& call);
  void ping_all(const WaitingCall& call, Inquiry& inquiry, Clock::time_point now);
  bool hears_nothing_from(int peer, const Ping& ping, Clock::time_point now, Clock::time_point since);
  std::optional<Failure> find_silent(const WaitingCall& call, Clock::time_point now);
  std::optional<Failure> diagnose_timeout(const WaitingCall& call, Inquiry& inquiry, Clock::time_point now);
  bool is_done_here(int peer) const;
  bool is_moving(const Inquiry& inquiry, int peer) const;
  std::string unmatched_message(const WaitingCall& call) const;
  int end_of_chain(const Inquiry& inquiry, int first) const;

  const int rank_;
  const int size_;
  const std::chrono::nanoseconds heartbeat_;
  const std::chrono::nanoseconds beat_;  // time between two pings
  MonitoredPeers& peers_;
  std::map<const void*, Inquiry> inquiries_;  // by operation
  std::map<int, Liveness> liveness_;          // by peer
};

}  // namespace kolo::engine
