// What an engine counts and records for operators: counters, metrics, the timeline. Metrics and the timeline
// are only kept if the options ask for them.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"
#include "engine/engine.hpp"
#include "kolo/error.hpp"

namespace kolo::engine {
namespace {

/// The longest gap between two waits for the same ranks that the timeline shows as one wait: a thread that
/// wakes up and goes back to sleep takes less.
constexpr std::chrono::milliseconds kOneWait{1};

}  // namespace

void Engine::begin_watching() {
  created_ = Clock::now();
  if (options_.timeline) link_recorded_.resize(static_cast<std::size_t>(size()));
  if (!options_.metrics) return;
  metrics_ = std::make_unique<observe::RankMetrics>();
  metrics_->group = options_.group;
  metrics_->rank = rank_;
  metrics_->host = options_.host;
  for (int c = 0; c <= static_cast<int>(schedule::Collective::send_recv); ++c) {
    metrics_->collectives.push_back({.name = schedule::name_of(static_cast<schedule::Collective>(c))});
  }
  for (int peer = 0; peer < size(); ++peer) {
    observe::PeerMetrics& made = metrics_->peers.emplace_back();
    made.rank = peer;
    made.host = options_.hosts.empty() ? options_.host : options_.hosts[static_cast<std::size_t>(peer)];
  }
  options_.metrics->add(this, [this] { return metrics(); });
}

void Engine::end_watching() {
  if (!options_.timeline) return;
  record_wait();
  if (options_.timeline_folder.empty()) return;
  const auto path = fmt::format("{}/rank-{}-{}.json", options_.timeline_folder, rank_, options_.group);
  try {
    options_.timeline->write(path, rank_, options_.host, options_.group);
  } catch (const Error& error) {
    log().warn("no timeline: KOLO_TIMELINE={}: {}", options_.timeline_folder, error.what());
  }
}

void Engine::count_begin(const OperationSpec& spec) {
  ++counters_.operations;
  if (!metrics_) return;
  observe::CollectiveMetrics& counts = metrics_->collectives[static_cast<std::size_t>(spec.collective)];
  ++counts.operations;
  counts.bytes += spec.signature.count * size_of(spec.dtype);
}

void Engine::count_error(schedule::Collective collective) {
  if (metrics_) ++metrics_->collectives[static_cast<std::size_t>(collective)].errors;
}

void Engine::count_transfer(bool sent, int peer, std::uint64_t bytes) {
  (sent ? counters_.bytes_sent : counters_.bytes_received) += bytes;
  ++(sent ? counters_.messages_sent : counters_.messages_received);
  if (!metrics_) return;
  observe::PeerMetrics& counts = metrics_->peers[static_cast<std::size_t>(peer)];
  (sent ? counts.sent_bytes : counts.received_bytes) += bytes;
  ++(sent ? counts.sent_messages : counts.received_messages);
}

std::string Engine::transport_to(int peer) const {
  const auto lock = driver_.enter();
  return std::string(peers_[peer].link.endpoint().transport());
}

Counters Engine::counters() const {
  const auto lock = driver_.enter();
  return counters_;
}

observe::RankMetrics Engine::metrics() const {
  const auto lock = driver_.enter();
  observe::RankMetrics shown = *metrics_;
  shown.age = Clock::now() - created_;
  for (observe::PeerMetrics& peer : shown.peers) {
    Peer& seen = peers_[peer.rank];
    peer.transport = seen.link.endpoint().transport();
    peer.lost = seen.has_ended && !seen.has_left;
    peer.connection_failures = peers_.failed_attempts(peer.rank);
  }
  shown.peers.erase(shown.peers.begin() + rank_);
  return shown;
}

void Engine::record(const Operation& operation) {
  if (!options_.timeline) return;
  record_wait();
  if (!operation.spec().counts) return;
  const auto ended = operation.started() + operation.duration();
  std::uint64_t bytes = 0;
  if (const auto& plan = operation.spec().prepared->plan) {
    for (const PlanStep& step : plan->steps) {
      if (step.kind == schedule::StepKind::send) bytes += step.wire_bytes;
    }
  }
  options_.timeline->span(schedule::name_of(operation.spec().collective), "communication",
                          operation.started(), ended,
                          fmt::format("\"call\":{},\"sent_bytes\":{}", operation.spec().call, bytes));
}

/// A link carries one message after the other: the time that a message waits behind earlier ones belongs to
/// those.
void Engine::record_transfer(std::string_view name, bool sent, int peer, std::uint64_t bytes,
                             Clock::time_point posted) {
  auto& recorded = link_recorded_[static_cast<std::size_t>(peer)][sent ? 0 : 1];
  const auto now = Clock::now();
  options_.timeline->span(name, fmt::format("{} rank {}", sent ? "to" : "from", peer),
                          std::max(posted, recorded), now, fmt::format("\"bytes\":{}", bytes));
  recorded = now;
}

/// The peers that operations wait for. Those of collectives come first: a message may rightly wait for long.
std::vector<int> Engine::awaited_peers() const {
  if (!metrics_ && !options_.timeline) return {};
  std::vector<int> of_collectives;
  std::vector<int> of_messages;
  for (const auto& operation : active_) {
    const OperationSpec& spec = operation->spec();
    const bool is_behind = spec.native() != nullptr && !spec.native()->is_first(*operation);
    if (!spec.counts || is_behind) continue;
    auto& list = spec.call > 0 ? of_collectives : of_messages;
    for (const int rank : operation->waiting_for()) {
      const int peer = spec.ranks()[static_cast<std::size_t>(rank)];
      if (peer != rank_ && std::ranges::find(list, peer) == list.end()) list.push_back(peer);
    }
  }
  return of_collectives.empty() ? of_messages : of_collectives;
}

void Engine::note_wait(const std::vector<int>& awaited, Clock::time_point begin) {
  const auto now = Clock::now();
  if (metrics_) {
    const auto share = (now - begin) / static_cast<std::int64_t>(awaited.size());
    for (const int peer : awaited) metrics_->peers[static_cast<std::size_t>(peer)].waited += share;
  }
  if (!options_.timeline) return;
  if (awaited != wait_span_.awaited || begin - wait_span_.end > kOneWait) {
    record_wait();
    wait_span_ = {awaited, begin, now};
  }
  wait_span_.end = now;
}

/// Records one span, however often the driver has polled meanwhile.
void Engine::record_wait() {
  const WaitSpan wait = std::exchange(wait_span_, {});
  if (wait.awaited.empty()) return;
  options_.timeline->span(fmt::format("for rank {}", fmt::join(wait.awaited, ", ")), "waiting", wait.begin,
                          wait.end, fmt::format("\"ranks\":[{}]", fmt::join(wait.awaited, ",")));
}

}  // namespace kolo::engine
