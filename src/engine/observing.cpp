// What an engine counts, and tells its observers.
#include <algorithm>

#include "engine/engine.hpp"

namespace kolo::engine {
namespace {

observe::ObservedCall observed(const OperationSpec& spec) {
  const schedule::CallKey& key = spec.key();
  return {static_cast<std::size_t>(key.collective), schedule::name_of(key.collective), spec.call,
          key.count * size_of(key.dtype)};
}

}  // namespace

Counters Engine::counters() const {
  const auto lock = driver_.enter();
  return counters_;
}

std::string Engine::transport_to(int peer) const {
  const auto lock = driver_.enter();
  return std::string(peers_[peer].link.endpoint().transport());
}

void Engine::observe_begin(const OperationSpec& spec) {
  ++counters_.operations;
  for (const auto& observer : options_.observers) observer->began(observed(spec));
}

void Engine::observe_error(const OperationSpec& spec) {
  for (const auto& observer : options_.observers) observer->failed(observed(spec));
}

void Engine::on_transferred(const OperationSpec& spec, bool sent, int peer, std::uint64_t bytes,
                            Clock::time_point posted) {
  (sent ? counters_.bytes_sent : counters_.bytes_received) += bytes;
  ++(sent ? counters_.messages_sent : counters_.messages_received);
  for (const auto& observer : options_.observers)
    observer->transferred(observed(spec), sent, peer, bytes, posted);
}

void Engine::observe_end(const Operation& operation) {
  const OperationSpec& spec = operation.spec();
  if (!operation.status().ok()) observe_error(spec);
  if (!is_timed_ || !spec.counts) return;
  const auto& plan = spec.prepared->plan;
  const auto ended = operation.started() + operation.duration();
  for (const auto& observer : options_.observers)
    observer->ended(observed(spec), plan ? plan->sent_bytes : 0, operation.started(), ended);
}

void Engine::observe_attempts(const Peer& peer) {
  const int rank = peer.link.peer();
  for (const auto& observer : options_.observers) observer->refused(rank, peers_.failed_attempts(rank));
}

/// The peers that operations wait for. Those of collectives come first: a message may rightly wait for long.
std::vector<int> Engine::awaited_peers() const {
  if (options_.observers.empty()) return {};
  std::vector<int> of_collectives;
  std::vector<int> of_messages;
  for (const Operation& operation : active_) {
    const OperationSpec& spec = operation.spec();
    if (!spec.counts || operation.is_behind()) continue;
    auto& list = spec.call > 0 ? of_collectives : of_messages;
    for (const int rank : operation.waiting_for()) {
      const int peer = spec.ranks()[static_cast<std::size_t>(rank)];
      if (peer != rank_ && std::ranges::find(list, peer) == list.end()) list.push_back(peer);
    }
  }
  return of_collectives.empty() ? of_messages : of_collectives;
}

}  // namespace kolo::engine
