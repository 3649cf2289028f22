// Links that are connected on demand: which rank dials, and what happens when a peer cannot be reached.
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "engine/engine.hpp"

namespace kolo {
namespace {

// Both ranks of a pair mostly need their connection at the same time. The higher rank dials at once. The
// lower rank dials only if no connection has come after this time.
constexpr auto kPatience = std::chrono::milliseconds(50);
// Every rank listens before any peer can dial it. So a peer that refuses connections for this long has ended.
constexpr auto kLongestRefusal = std::chrono::milliseconds(200);

/// Why this process cannot open a connection to any peer (no descriptor is left); empty if it can.
std::string why_no_descriptor() {
  const UniqueFd probe(::eventfd(0, EFD_CLOEXEC));
  if (probe.valid() || (errno != EMFILE && errno != ENFILE)) return {};
  return Status::from_errno("raise the limit of open files (ulimit -n)", errno).message();
}

}  // namespace

std::string Engine::name_of_rank(int index) const {
  if (options_.hosts.empty()) return fmt::format("rank {}", index);
  return fmt::format("rank {} on host {}", index, options_.hosts[static_cast<std::size_t>(index)]);
}

void Engine::dial_wanted() {
  bool is_dialling = false;
  for (Unconnected& waiting : unconnected_) {
    is_dialling = is_dialling || waiting.dialled;
    if (waiting.dialled || !links_[waiting.index]->is_wanted()) continue;
    const auto now = Clock::now();
    if (waiting.wanted_since == Clock::time_point{}) waiting.wanted_since = now;
    if (static_cast<int>(waiting.index) > rank_ && now - waiting.wanted_since < kPatience) continue;
    waiting.dialled = is_dialling = true;
    on_demand_.dialer->dial(static_cast<int>(waiting.index));
  }
  // The dialer's descriptor does not signal that it is time to dial again.
  if (is_dialling && Clock::now() >= on_demand_.dialer->next_time()) take_connections();
}

bool Engine::take_connections() {
  bool moved = false;
  for (auto& [rank, endpoint] : on_demand_.dialer->progress()) {
    const auto index = static_cast<std::size_t>(rank);
    const auto waiting = std::ranges::find(unconnected_, index, &Unconnected::index);
    if (waiting == unconnected_.end()) continue;  // one connection is enough
    unconnected_.erase(waiting);
    log().debug("rank {} is connected: {}", rank_, endpoint->describe());
    links_[index]->connect(std::move(endpoint));
    const Status watched = event_set_.add(links_[index]->endpoint().fd(), static_cast<std::uint32_t>(index));
    if (!watched.ok()) record_failure({watched.code(), rank_, watched.message()});
    if (failure_) {
      links_[index]->send_control(static_cast<std::uint32_t>(ControlKind::abort), encode(*failure_));
    }
    progress(index, true);
    moved = true;
  }
  return moved;
}

bool Engine::is_unreachable(int peer) const {
  return !is_connected(static_cast<std::size_t>(peer)) &&
         on_demand_.dialer->unreachable_for(peer) >= kLongestRefusal;
}

/// Whether the peer has ended and this rank waits for nothing from it. Otherwise check_links() or
/// check_unreachable() report the loss.
bool Engine::is_done_here(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  return !links_[index]->is_waiting() && (left_[index] || is_unreachable(peer));
}

void Engine::check_unreachable() {
  for (const Unconnected& waiting : unconnected_) {
    const int peer = static_cast<int>(waiting.index);
    if (waiting.dialled && on_demand_.dialer->failed_attempts(peer) > 0) {
      if (const std::string why = why_no_descriptor(); !why.empty()) {
        return record_failure({Code::system, rank_,
                               fmt::format("{} has no descriptor for its connection to {}: {}",
                                           name_of_rank(rank_), name_of_rank(peer), why)},
                              true);
      }
    }
    // A peer that was only sent a ping may have done its part and ended.
    if (!links_[waiting.index]->is_waiting() || !is_unreachable(peer)) continue;
    record_failure({Code::peer_lost, peer,
                    fmt::format("lost {}: it cannot be reached: {}", name_of_rank(peer),
                                on_demand_.dialer->known(peer))});
  }
}

}  // namespace kolo
