// Heartbeats: whether the peers that an operation waits for are alive, and which ranks are missing.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"

namespace kolo {
namespace {

constexpr int kBeatsBeforeLoss = 5;
// Pings are delivered too, but are no sign of life: the peer's kernel accepts them for a stopped process.
constexpr std::uint64_t kBytesOfQuestions = 4096;
// Payload of other peers that fills this rank's network link may delay a living peer's bytes, or lose them,
// for a while.
constexpr std::uint64_t kBytesOfBusyLink = 1 << 16;
constexpr int kHeartbeatsWhileBusy = 4;
constexpr std::chrono::nanoseconds kFirstWarning = std::chrono::seconds(10);
constexpr std::chrono::nanoseconds kFreshAnswer = std::chrono::seconds(1);

}  // namespace

void Engine::ask_rank(const Ping& ping, std::size_t index) {
  links_[index]->send_control(static_cast<std::uint32_t>(ControlKind::ping), as_payload(ping));
}

/// Whether no byte has come from the peer, or reached it, for a heartbeat. A living peer reads all that it is
/// sent and answers pings, even while its program computes. So a slow peer is never taken for silent. Called
/// repeatedly while this rank waits for the peer, from the first beat of the wait on.
bool Engine::is_silent(std::size_t index, const Ping& ping, Clock::time_point now) {
  const auto beat = options_.heartbeat / kBeatsBeforeLoss;
  const std::uint64_t read = links_[index]->bytes_read();
  const std::uint64_t delivered = links_[index]->endpoint().delivered();
  PeerLiveness& watch = liveness_[index];
  // If this rank has not checked for a while (no thread waited, or this process was stopped), it has sent no
  // pings either: the time starts anew.
  const bool is_new = now - watch.looked >= beat;
  watch.looked = now;
  if (is_new || read != watch.read || delivered > watch.delivered + kBytesOfQuestions) {
    watch.read = read;
    watch.delivered = delivered;
    watch.heard = is_new ? now - beat : now;
  }
  std::uint64_t elsewhere = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const bool is_network = links_[i]->endpoint().local_peer() == nullptr;
    if (i != index && static_cast<int>(i) != rank_ && is_network) elsewhere += links_[i]->payload_moved();
  }
  if (is_new || elsewhere > watch.elsewhere + kBytesOfBusyLink) {
    watch.elsewhere = elsewhere;
    watch.busy = is_new ? watch.heard : now;
  }
  if (now - watch.asked >= beat) {
    watch.asked = now;
    ask_rank(ping, index);
  }
  const auto last_excuse = watch.heard + (kHeartbeatsWhileBusy - 1) * options_.heartbeat;
  return now - std::max(watch.heard, std::min(watch.busy, last_excuse)) >= options_.heartbeat;
}

void Engine::watch(const Operation& operation, Clock::time_point now) {
  const auto beat = options_.heartbeat / kBeatsBeforeLoss;
  if (options_.heartbeat.count() == 0 || now - operation.last_progress() < beat) return;
  const OperationSpec& spec = operation.spec();
  for (const int rank : operation.waiting_for()) {
    const int peer = spec.ranks()[static_cast<std::size_t>(rank)];
    const auto index = static_cast<std::size_t>(peer);
    if (peer == rank_ || lost_[index] || left_[index]) continue;  // check_links() reports these
    // All that the peer had to send may have come, and wait to be taken in.
    const bool is_needed = operation.is_unmatched() || links_[index]->is_waiting();
    if (spec.group() == nullptr && !is_needed) continue;
    if (!is_silent(index, {spec.context, 0, spec.sequence, spec.signature}, now)) continue;
    record_failure({Code::peer_lost, peer,
                    fmt::format("lost {}: not a word from it for {:.3g} s: it is stopped, or its machine or "
                                "network is down ({})",
                                name_of_rank(peer), to_seconds(now - liveness_[index].heard),
                                is_connected(index) ? links_[index]->endpoint().transport()
                                                    : on_demand_.dialer->known(peer))});
    return;
  }
}

/// The communicator's first rank, if it waits, logs which ranks are missing: after 10 s, 20 s, 40 s and so
/// on.
void Engine::warn(Operation& operation, Clock::time_point now) {
  const OperationSpec& spec = operation.spec();
  const auto idle = now - operation.last_progress();
  if (operation.next_warning_.count() == 0) operation.next_warning_ = kFirstWarning;
  if (spec.ranks().front() != rank_ || idle < operation.next_warning_ - kFreshAnswer) return;
  if (now - operation.asked_ > kFreshAnswer) ask(operation);
  if (idle < operation.next_warning_) return;
  operation.next_warning_ *= 2;
  std::vector<std::string> missing;
  for (const int peer : spec.ranks()) {
    if (peer == rank_) continue;
    const Pong* const answer = operation.answer_of(peer, now - 2 * kFreshAnswer);
    if (answer == nullptr && is_done_here(peer)) continue;
    if (answer == nullptr) {
      missing.push_back(name_of_rank(peer) + " (no answer)");
    } else if (spec.call > 0 && answer->last_sequence < spec.sequence) {
      const std::string last =
          answer->last_sequence == 0
              ? "no call so far"
              : fmt::format("last seen in {} #{}", name_of(static_cast<Collective>(answer->last_collective)),
                            answer->last_sequence);
      const bool waits = std::chrono::milliseconds(answer->waits_ms) > idle / 2;
      missing.push_back(fmt::format("{} ({}{})", name_of_rank(peer), last, waits ? ", waits itself" : ""));
    }
  }
  if (missing.empty()) {
    for (const int rank : operation.waiting_for())
      missing.push_back(name_of_rank(spec.ranks()[static_cast<std::size_t>(rank)]) +
                        (spec.call > 0 ? " (it takes part)" : " (it answers)"));
  }
  log().warn("{}: waiting {:.0f} s for {}", call_of(operation), to_seconds(idle), fmt::join(missing, ", "));
}

}  // namespace kolo
