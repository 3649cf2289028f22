// Peers: the links of one process to all ranks. Connects, polls and closes them, and sleeps until one has
// news.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/memory_pool.hpp"
#include "engine/control.hpp"
#include "engine/failure_detector.hpp"
#include "engine/shared_memory/segment.hpp"
#include "net/event_set.hpp"
#include "transport/link.hpp"
#include "transport/transport.hpp"

namespace kolo::engine {

/// Connects the links whose endpoint is an UnconnectedEndpoint, when they are needed.
struct OnDemand {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<transport::Dialer> dialer;
};

/// A rank and the link to it. This rank is a peer too, over a SelfEndpoint.
struct Peer {
  enum class Connection { none, dialling, up };

  bool is_connected() const noexcept { return connection == Connection::up; }
  bool is_gone() const noexcept { return has_left || has_ended; }
  /// Over a socket, of which a poll costs a system call.
  bool has_socket() noexcept { return is_connected() && !link.endpoint().polls_are_free(); }
  void send(ControlKind kind, std::span<const std::byte> payload) {
    const bool is_urgent =
        kind == ControlKind::ping || kind == ControlKind::pong || kind == ControlKind::alive;
    link.send_control(static_cast<std::uint32_t>(kind), payload, is_urgent);
  }

  transport::Link link;
  Connection connection = Connection::none;
  Clock::time_point wanted_since{};            ///< while there is no connection
  bool wants_write = false;                    ///< as last told to the event set
  bool has_left = false;                       ///< said goodbye
  std::optional<Failure> loss = std::nullopt;  ///< why messages of the peer had failed before it left
  bool has_ended = false;                      ///< its link has
  bool is_silent = false;                      ///< was lost without a word, so its process may live
  int relinks = 0;                             ///< links to the peer that have ended before this one
  Clock::time_point relinked{};
};

/// What Peers reports to its owner, from inside its functions.
class PeersListener : public transport::LinkListener {
 public:
  /// Messages have come, or begun to come, for which no receive is posted.
  virtual void on_arrived(Peer& peer) = 0;
  /// `watched`: whether the peer's descriptor could be added to the event set.
  virtual void on_connected(Peer& peer, const Status& watched) = 0;
  /// The link has an error, or the peer has closed it. The owner may call Peers::close().
  virtual void on_broken(Peer& peer) = 0;
};

/// Used under the engine's lock, but for wait() and wake().
class Peers final : public MonitoredPeers {
 public:
  /// `endpoints[r]` leads to rank r; the entry of `rank` itself is a SelfEndpoint. `hosts`: host name of each
  /// rank; may be empty. All references outlive the Peers.
  Peers(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints, OnDemand on_demand,
        const std::vector<std::string>& hosts, PeersListener& listener, MemoryPool& memory);

  int size() const noexcept { return static_cast<int>(peers_.size()); }
  Peer& operator[](int rank) const { return *peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::unique_ptr<Peer>>& all() const noexcept { return peers_; }
  /// This rank's segment of the memory that it shares with peers; null if it shares none.
  shared_memory::Segment* segment() const noexcept { return segment_; }
  /// A poll of some link takes a system call.
  bool has_descriptors() const noexcept { return has_descriptors_; }
  /// Payload that has moved over sockets.
  std::uint64_t payload_on_sockets() const;
  /// There are bytes that had no room.
  bool want_write() const;
  /// A message has come for which no receive is posted.
  void note_unexpected() { may_hold_unexpected_ = true; }
  /// Whether a link may hold such a message.
  bool may_hold_unexpected();
  /// Failed attempts to connect to the peer.
  std::uint64_t failed_attempts(int rank) const;
  /// This process has no descriptor left for a connection that it needs, or may not wait for its connections.
  std::optional<Failure> own_trouble() const;

  /// Moves what can move now; returns whether anything did. `readable`: the peer may have sent something.
  bool progress(Peer& peer, bool readable);
  /// The links in shared memory, those that have something to write, and, if `look_at_descriptors`, sockets.
  /// Connects the peers that are needed.
  bool poll(bool look_at_descriptors);
  /// Whether the link to the peer was closed although the peer had not left. Its process may live: one that
  /// has ended refuses connections.
  bool is_cut(Peer& peer) const;
  /// Whether relink() will try to reach it.
  bool may_relink(Peer& peer) const { return is_cut(peer) && peer.relinks < kMostRelinks; }
  /// Dials the peers whose links were cut, for recovery messages. Call it once no operation will succeed.
  void relink();
  void write();
  /// Links in the middle of a message do not wake the driver for a few bytes. Reads bytes that come slowly.
  void read_unfinished();
  /// Begins the way to sleep. Ranks that publish something in shared memory after this ring the doorbell;
  /// what they have published before must be polled after this. disarm() follows.
  void announce_sleep();
  /// Before a sleep. Returns false if there is something to do: then do not sleep.
  bool arm();
  void disarm();
  /// Sleeps until a peer has news, wake() is called, or the time has passed. The results are for woken().
  std::span<const std::uint32_t> wait(int timeout_ms) { return event_set_.wait(timeout_ms); }
  void wake() { event_set_.wake(); }
  bool woken(std::uint32_t number);
  /// Reads all that has come from the peer, or `most` bytes and a little more.
  void read_all(const Peer& peer, std::uint64_t most);
  /// Publishes the core of this thread. Whether a peer of this host computes there, or a lower one waits
  /// there; `taken` gets the cores of all of them.
  bool shares_core(int core, cpu_set_t& taken);
  /// No byte goes to the peer, or comes from it, any more.
  void close(Peer& peer);
  /// Waits, for at most a second, until what was sent has reached the peers' hosts. If a peer's byte finds
  /// the connection closed before that, the system throws it away.
  void deliver();

  SignsOfLife signs_of(int peer) const override;
  PeerState state_of(int peer) const override;
  void ping(int peer, const Ping& ping) override { (*this)[peer].send(ControlKind::ping, as_payload(ping)); }
  std::string name_of(int peer) const override;
  std::vector<int> ranks_beside(int peer) const override;
  std::string connection_to(int peer) const override;
  std::optional<std::uint32_t> unmatched_tag(int peer, std::uint32_t context) const override;

 private:
  static constexpr int kMostRelinks = 20;

  bool dial_if_wanted(Peer& peer);
  bool take_connections();
  bool poll_descriptors();
  void find_speculative_reads();

  const int rank_;
  const std::vector<std::string>& hosts_;
  PeersListener& listener_;
  MemoryPool& memory_;
  OnDemand on_demand_;
  net::EventSet event_set_;
  std::vector<std::unique_ptr<Peer>> peers_;
  shared_memory::Segment* segment_ = nullptr;
  std::uint32_t sleep_ = 1;  // number of the last sleep, see Segment::asleep; odd also when it wraps
  bool has_descriptors_ = false;
  bool may_hold_unexpected_ = false;
  std::size_t armed_ = 0;  // peers, from rank 0 on
  std::vector<Peer*> speculative_reads_;
  unsigned speculative_polls_ = 0;
};

}  // namespace kolo::engine
