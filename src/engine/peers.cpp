#include "engine/peers.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "engine/message_number.hpp"
#include "transport/unconnected_endpoint.hpp"

namespace kolo::engine {
namespace {

// Both ranks of a pair mostly need their connection at the same time. The higher rank dials at once. The
// lower rank dials only if no connection has come after this time.
constexpr auto kLowerRankDialDelay = std::chrono::milliseconds(50);
// The peer may not know yet that their link was cut. Then it closes the new one.
constexpr auto kRelinkPause = std::chrono::milliseconds(10);
constexpr std::size_t kSpeculativeReads = 2;
constexpr int kPollsBetweenAsking = 8;
constexpr std::uint32_t kAwake = 0;  // of Segment::asleep

/// Why this process cannot open a connection to any peer (no descriptor is left); empty if it can.
std::string why_no_descriptor() {
  const UniqueFd probe(::eventfd(0, EFD_CLOEXEC));
  if (probe.valid() || (errno != EMFILE && errno != ENFILE)) return {};
  return Status::from_errno("raise the limit of open files (ulimit -n)", errno).message();
}

}  // namespace

Peers::Peers(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints, OnDemand on_demand,
             const std::vector<std::string>& hosts, PeersListener& listener, MemoryPool& memory)
    : rank_(rank), hosts_(hosts), listener_(listener), memory_(memory), on_demand_(std::move(on_demand)) {
  for (auto& endpoint : endpoints) {
    const int number = size();
    const int fd = endpoint->fd();
    has_descriptors_ = has_descriptors_ || !endpoint->polls_are_free();
    if (transport::LocalPeer* local_peer = endpoint->local_peer())
      segment_ = &shared_memory::Segment::in(local_peer->own_segment());
    peers_.emplace_back(new Peer{transport::Link(number, std::move(endpoint), listener, memory)});
    if (fd >= 0 || number == rank_) peers_.back()->connection = Peer::Connection::up;
    if (fd >= 0) event_set_.add(fd, static_cast<std::uint32_t>(number)).throw_if_error();
  }
  if (on_demand_.dialer != nullptr)
    event_set_.add(on_demand_.dialer->fd(), static_cast<std::uint32_t>(size())).throw_if_error();
}

std::uint64_t Peers::payload_on_sockets() const {
  std::uint64_t bytes = 0;
  if (!has_descriptors_) return bytes;
  for (const auto& peer : peers_) bytes += peer->has_socket() ? peer->link.payload_moved() : 0;
  return bytes;
}

bool Peers::may_hold_unexpected() {
  may_hold_unexpected_ = may_hold_unexpected_ && std::ranges::any_of(peers_, [](const auto& peer) {
                           return peer->link.has_unexpected();
                         });
  return may_hold_unexpected_;
}

bool Peers::want_write() const {
  return std::ranges::any_of(peers_,
                             [](const auto& peer) { return !peer->has_ended && peer->link.wants_write(); });
}

std::uint64_t Peers::failed_attempts(int rank) const {
  return on_demand_.dialer ? on_demand_.dialer->failed_attempts(rank) : 0;
}

std::optional<Failure> Peers::own_trouble() const {
  if (const Status& status = event_set_.status(); !status.ok()) {
    return Failure{status.code(), rank_,
                   fmt::format("{} cannot wait for its peers: {}", name_of(rank_), status.message())};
  }
  for (const auto& peer : peers_) {
    const int number = peer->link.peer();
    if (peer->connection != Peer::Connection::dialling || failed_attempts(number) == 0) continue;
    if (const std::string why = why_no_descriptor(); !why.empty()) {
      return Failure{Code::system, rank_,
                     fmt::format("{} has no descriptor for its connection to {}: {}", name_of(rank_),
                                 name_of(number), why)};
    }
  }
  return std::nullopt;
}

bool Peers::progress(Peer& peer, bool readable) {
  auto moved = peer.link.progress(readable);
  if (peer.link.has_unexpected()) listener_.on_arrived(peer);  // also what it sent before it left
  if (!moved.ok()) {
    listener_.on_broken(peer);
    return false;
  }
  if (!peer.has_socket()) return *moved;
  transport::Endpoint& endpoint = peer.link.endpoint();
  // The message behind a large one may be short, and a thread may be spinning for it.
  if (peer.link.incoming_left() == 0) endpoint.expect(0);
  if (!endpoint.must_be_armed() && peer.wants_write != peer.link.wants_write()) {
    peer.wants_write = peer.link.wants_write();
    event_set_.set_writable_interest(endpoint.fd(), static_cast<std::uint32_t>(peer.link.peer()),
                                     peer.wants_write);
  }
  return *moved;
}

bool Peers::poll(bool look_at_descriptors) {
  bool moved = false;
  bool is_dialling = false;
  for (const auto& peer : peers_) {
    transport::Link& link = peer->link;
    if (peer->has_ended) {
      moved = link.consume_buffered() || moved;
    } else if (!peer->is_connected()) {
      is_dialling = dial_if_wanted(*peer) || is_dialling;
    } else {
      const transport::Endpoint& endpoint = link.endpoint();
      const bool readable = endpoint.polls_are_free() || endpoint.holds_input();
      if (readable || link.wants_write() || link.has_pulls()) moved = progress(*peer, readable) || moved;
    }
  }
  // The dialer's descriptor does not signal that it is time to dial again.
  if (is_dialling && Clock::now() >= on_demand_.dialer->next_time()) moved = take_connections() || moved;
  return (look_at_descriptors && poll_descriptors()) || moved;
}

/// Returns whether the peer is being dialled.
bool Peers::dial_if_wanted(Peer& peer) {
  if (peer.connection == Peer::Connection::dialling) return true;
  if (!peer.link.is_wanted()) return false;
  const auto now = Clock::now();
  if (peer.wanted_since == Clock::time_point{}) peer.wanted_since = now;
  if (peer.link.peer() > rank_ && now - peer.wanted_since < kLowerRankDialDelay) return false;
  peer.connection = Peer::Connection::dialling;
  on_demand_.dialer->dial(peer.link.peer());
  return true;
}

bool Peers::take_connections() {
  bool moved = false;
  for (auto& [rank, endpoint] : on_demand_.dialer->progress()) {
    Peer& peer = (*this)[rank];
    if (peer.is_connected()) continue;  // one connection is enough
    peer.connection = Peer::Connection::up;
    log().debug("rank {} is connected: {}", rank_, endpoint->describe());
    peer.link.connect(std::move(endpoint));
    listener_.on_connected(peer, event_set_.add(peer.link.endpoint().fd(), static_cast<std::uint32_t>(rank)));
    progress(peer, true);
    moved = true;
  }
  return moved;
}

bool Peers::is_cut(Peer& peer) const {
  transport::Link& link = peer.link;
  const bool is_dialled =
      on_demand_.transport != nullptr && link.endpoint().transport() == on_demand_.transport->name();
  const bool is_closed = link.status().ok() || link.status().code() == Code::peer_lost;
  return is_dialled && is_closed && peer.has_ended && !peer.has_left && !peer.is_silent;
}

void Peers::relink() {
  for (auto& peer : peers_) {
    if (!peer->has_ended || !may_relink(*peer)) continue;
    const auto now = Clock::now();
    if (now - peer->relinked < kRelinkPause) continue;
    const int number = peer->link.peer();
    auto endpoint = std::make_unique<transport::UnconnectedEndpoint>(on_demand_.transport->name());
    const int relinks = peer->relinks + 1;
    peer.reset(new Peer{.link = transport::Link(number, std::move(endpoint), listener_, memory_),
                        .connection = Peer::Connection::dialling,
                        .relinks = relinks,
                        .relinked = now});
    on_demand_.dialer->dial(number);
  }
}

bool Peers::poll_descriptors() {
  bool moved = false;
  find_speculative_reads();
  if (!speculative_reads_.empty() && ++speculative_polls_ % kPollsBetweenAsking != 0) {
    for (Peer* peer : speculative_reads_) moved = progress(*peer, true) || moved;
    return moved;
  }
  for (const std::uint32_t number : event_set_.wait(0)) moved = woken(number) || moved;
  return moved;
}

/// Chooses the sockets that are read without asking epoll first, because asking costs as much as trying:
/// those of the awaited peers, if they are few. Chooses none in the middle of a large message: epoll reports
/// its next bytes once enough have come to be worth reading.
void Peers::find_speculative_reads() {
  speculative_reads_.clear();
  for (const auto& peer : peers_) {
    if (peer->has_ended || !peer->has_socket() || !peer->link.awaits_something()) continue;
    if (peer->link.incoming_left() > 0 || speculative_reads_.size() == kSpeculativeReads)
      return speculative_reads_.clear();
    speculative_reads_.push_back(peer.get());
  }
}

void Peers::write() {
  for (const auto& peer : peers_) {
    if (peer->link.wants_write()) progress(*peer, false);
  }
}

void Peers::read_unfinished() {
  for (const auto& peer : peers_) {
    if (!peer->has_ended && peer->link.incoming_left() > 0) progress(*peer, true);
  }
}

/// A publisher rings once for each number, so each sleep has its own. The fence pairs with that of
/// Team::tell().
void Peers::announce_sleep() {
  if (segment_ == nullptr) return;
  segment_->asleep.store(sleep_ += 2, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Peers::arm() {
  bool is_quiet = true;
  for (; armed_ < peers_.size() && is_quiet; ++armed_) {
    Peer& peer = *peers_[armed_];
    transport::Link& link = peer.link;
    if (peer.has_ended) {
      is_quiet = !link.has_buffered();
    } else if (link.endpoint().must_be_armed()) {
      is_quiet = link.endpoint().arm(link.wants_write()) && !link.has_pulls();
    } else {
      link.endpoint().expect(link.incoming_left());
      const bool is_new = link.wants_write() && !peer.wants_write && peer.is_connected();
      is_quiet = !link.has_pulls() && !is_new;
    }
  }
  return is_quiet;
}

void Peers::disarm() {
  if (segment_ != nullptr) segment_->asleep.store(kAwake, std::memory_order_relaxed);
  while (armed_ > 0) {
    Peer& peer = *peers_[--armed_];
    if (!peer.has_ended && peer.link.endpoint().must_be_armed()) peer.link.endpoint().disarm();
  }
}

bool Peers::woken(std::uint32_t number) {
  if (number == peers_.size()) return take_connections();
  Peer& peer = *peers_[number];
  if (peer.has_ended) return false;
  const Status drained = peer.link.endpoint().drain();
  const bool moved = progress(peer, true);  // reads a dying peer's last messages before its loss is recorded
  if (!drained.ok()) listener_.on_broken(peer);
  return moved;
}

/// Each turn may end at an early message. And a read after a short one asks the system only if the endpoint
/// was drained before.
void Peers::read_all(const Peer& peer, std::uint64_t most) {
  const std::uint64_t before = peer.link.bytes_read();
  while (woken(static_cast<std::uint32_t>(peer.link.peer())) && peer.link.bytes_read() - before < most) {
  }
}

bool Peers::shares_core(int core, cpu_set_t& taken) {
  if (segment_ == nullptr) return false;
  const std::uint32_t here = shared_memory::Segment::place_of(core);
  segment_->core.store(here + 1, std::memory_order_relaxed);
  CPU_SET(static_cast<std::size_t>(core), &taken);
  bool shares = false;
  for (const auto& peer : peers_) {
    transport::LocalPeer* local_peer = peer->link.endpoint().local_peer();
    if (local_peer == nullptr) continue;
    const auto there = shared_memory::Segment::in(local_peer->segment()).core.load(std::memory_order_relaxed);
    shares = shares || there == here || (there == here + 1 && peer->link.peer() < rank_);
    if (const std::uint32_t number = there / 2; number > 0) CPU_SET(number - 1, &taken);
  }
  return shares;
}

void Peers::close(Peer& peer) {
  peer.has_ended = true;
  event_set_.remove(peer.link.endpoint().fd());
}

void Peers::deliver() {
  const auto deadline = Deadline::after(std::chrono::seconds(1));
  for (bool is_delivered = false; !is_delivered && !deadline.passed();) {
    is_delivered = true;
    bool moved = false;
    for (const auto& peer : peers_) {
      transport::Link& link = peer->link;
      if (!peer->is_connected() || !link.status().ok()) continue;
      if (!link.wants_write() && link.endpoint().undelivered() == 0) continue;
      is_delivered = false;
      try {
        const auto progress = link.progress(true);
        moved = moved || (progress.ok() && *progress);
      } catch (const std::bad_alloc&) {  // no memory to take in a peer's last messages
      }
    }
    if (!is_delivered && !moved) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

SignsOfLife Peers::signs_of(int peer) const {
  transport::Link& link = (*this)[peer].link;
  SignsOfLife signs{link.bytes_read(), link.endpoint().delivered()};
  for (int other = 0; other < size(); ++other) {
    const bool is_network = (*this)[other].link.endpoint().local_peer() == nullptr;
    if (other != peer && other != rank_ && is_network) signs.elsewhere += (*this)[other].link.payload_moved();
  }
  return signs;
}

PeerState Peers::state_of(int peer) const {
  const Peer& p = (*this)[peer];
  PeerState state{p.has_left, p.has_ended, p.link.is_waiting(), p.link.has_buffered(),
                  p.link.payload_moved()};
  if (!p.is_connected()) state.refused_for = on_demand_.dialer->unreachable_for(peer);
  state.was_cut = p.relinks > 0;
  return state;
}

std::string Peers::name_of(int peer) const {
  if (hosts_.empty()) return fmt::format("rank {}", peer);
  return fmt::format("rank {} on host {}", peer, hosts_[static_cast<std::size_t>(peer)]);
}

std::vector<int> Peers::ranks_beside(int peer) const {
  const auto is_with = [&](int one, int other) {
    return hosts_[static_cast<std::size_t>(one)] == hosts_[static_cast<std::size_t>(other)];
  };
  std::vector<int> beside;
  if (hosts_.empty() || is_with(peer, rank_)) return beside;
  for (int other = 0; other < size(); ++other) {
    if (other != peer && is_with(other, peer)) beside.push_back(other);
  }
  return beside;
}

std::string Peers::connection_to(int peer) const {
  Peer& p = (*this)[peer];
  return p.is_connected() ? std::string(p.link.endpoint().transport()) : on_demand_.dialer->known(peer);
}

std::optional<std::uint32_t> Peers::unmatched_tag(int peer, std::uint32_t context) const {
  std::optional<std::uint32_t> found;
  (*this)[peer].link.for_each_unexpected([&](const transport::Tag& tag, const transport::Signature&) {
    const auto message = MessageNumber::from_sequence(tag.sequence);
    if (tag.context == context && message && !found) found = message->tag;
  });
  return found;
}

}  // namespace kolo::engine
