// Which message a receive gets: the next one of its sender and tag, or the first one of any sender.
#include <algorithm>

#include <fmt/format.h>

#include "engine/engine.hpp"
#include "engine/message_number.hpp"

namespace kolo::engine {
namespace {

std::uint32_t tag_of(const OperationSpec& spec) {
  return MessageNumber::from_sequence(spec.sequence)->tag;
}

}  // namespace

/// The ranks of a communicator, in its numbering, without this one.
std::vector<int> Engine::other_ranks(const std::vector<int>& ranks) const {
  std::vector<int> others;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r] != rank_) others.push_back(static_cast<int>(r));
  }
  return others;
}

void Engine::number_receive(Operation& operation) {
  OperationSpec& spec = operation.spec_;
  const std::uint32_t tag = tag_of(spec);
  const int peer = spec.ranks()[static_cast<std::size_t>(spec.source)];
  spec.sequence = MessageNumber{tag, spec.group->receives[{peer, tag}]++}.sequence();
}

/// Begins with another rank each time, so that no sender is always served last.
void Engine::find_sender(ScheduleOperation& operation) {
  unmatched_.push_back(&operation);
  const std::size_t ranks = operation.spec().ranks().size();
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t source = (next_source_ + i) % ranks;
    if (!match(operation, static_cast<int>(source))) continue;
    next_source_ = source + 1;
    return;
  }
}

/// Gives the receive the next message from `source`, if that has come. A shorter message that has overtaken
/// it on the link waits.
bool Engine::match(ScheduleOperation& operation, int source) {
  const OperationSpec& spec = operation.spec();
  const int peer = spec.ranks()[static_cast<std::size_t>(source)];
  if (!link(peer).has_unexpected()) return false;
  const std::uint32_t tag = tag_of(spec);
  std::uint32_t& index = spec.group->receives[{peer, tag}];
  const std::uint64_t sequence = MessageNumber{tag, index}.sequence();
  if (!link(peer).has_unexpected({spec.group->context, 0, sequence})) return false;
  ++index;
  std::erase(unmatched_, &operation);
  operation.match(source, sequence);
  if (operation.done()) operation_finished(operation);
  return true;
}

/// Matches the receives from any rank with the messages that have come.
void Engine::on_arrived(Peer& peer) {
  for (std::size_t i = 0; i < unmatched_.size();) {
    const auto& ranks = unmatched_[i]->spec().ranks();
    const auto place = std::ranges::find(ranks, peer.link.peer());
    const bool is_matched =
        place != ranks.end() && match(*unmatched_[i], static_cast<int>(place - ranks.begin()));
    if (!is_matched) ++i;
  }
}

/// Whether another rank is left that may send.
bool Engine::can_be_matched(const Operation& operation) const {
  const auto& ranks = operation.spec().ranks();
  return ranks.size() == 1 ||
         std::ranges::any_of(ranks, [&](int peer) { return peer != rank_ && !peers_[peer].is_gone(); });
}

}  // namespace kolo::engine
