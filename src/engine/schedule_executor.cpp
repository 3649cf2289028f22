#include "engine/schedule_executor.hpp"

#include <algorithm>

#include "engine/message_number.hpp"

namespace kolo::engine {
namespace {

std::uint32_t tag_of(const OperationSpec& spec) {
  return MessageNumber::from_sequence(spec.sequence)->tag;
}

}  // namespace

void ScheduleExecutor::begin(Operation& operation, bool) {
  const OperationSpec& spec = operation.spec();
  auto& scheduled = static_cast<ScheduleOperation&>(operation);
  if (spec.call > 0) check_unexpected_messages(spec);
  if (spec.source >= 0) {
    const std::uint32_t tag = tag_of(spec);
    const int peer = spec.ranks()[static_cast<std::size_t>(spec.source)];
    scheduled.set_sequence(MessageNumber{tag, spec.group->receives[{peer, tag}]++}.sequence());
  }
  scheduled.begin();
  if (spec.source == kAnySource) find_sender(scheduled);
}

std::vector<int> ScheduleExecutor::other_ranks(const std::vector<int>& ranks) const {
  std::vector<int> others;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r] != rank_) others.push_back(static_cast<int>(r));
  }
  return others;
}

/// Begins with another rank each time, so that no sender is always served last.
void ScheduleExecutor::find_sender(ScheduleOperation& operation) {
  const std::size_t ranks = operation.spec().ranks().size();
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t source = (next_source_ + i) % ranks;
    if (!match(operation, static_cast<int>(source))) continue;
    next_source_ = source + 1;
    return;
  }
  unmatched_.push_back(&operation);
}

/// Gives the receive the next message from `source`, if that has come. A shorter message that has overtaken
/// it on the link waits.
bool ScheduleExecutor::match(ScheduleOperation& operation, int source) {
  const OperationSpec& spec = operation.spec();
  const int peer = spec.ranks()[static_cast<std::size_t>(source)];
  const bool is_asked = spec.probed < 0 || spec.probed == source;
  if (!is_asked || !link(peer).has_unexpected()) return false;
  const std::uint32_t tag = tag_of(spec);
  std::uint32_t& index = spec.group->receives[{peer, tag}];
  const std::uint64_t sequence = MessageNumber{tag, index}.sequence();
  if (!link(peer).has_unexpected({spec.group->context, 0, sequence})) return false;
  if (spec.probed != kNoSource) {
    transport::Signature message;
    link(peer).for_each_unexpected_of(spec.group->context, sequence,
                                      [&](const auto&, const auto& theirs) { message = theirs; });
    operation.find(source, message);
    return true;
  }
  ++index;
  operation.match(source, sequence);
  return true;
}

/// Matches the receives from any rank with the messages that have come.
void ScheduleExecutor::on_arrived(int peer) {
  std::erase_if(unmatched_, [&](ScheduleOperation* operation) {
    const auto& ranks = operation->spec().ranks();
    const auto place = std::ranges::find(ranks, peer);
    return place != ranks.end() && match(*operation, static_cast<int>(place - ranks.begin()));
  });
}

Operation* ScheduleExecutor::find_unmatchable() const {
  for (Operation* operation : unmatched_) {
    const auto& ranks = operation->spec().ranks();
    const std::vector<int> awaited = operation->waiting_for();
    const bool may_come = awaited.empty() || std::ranges::any_of(awaited, [&](int rank) {
                            const int peer = ranks[static_cast<std::size_t>(rank)];
                            return peer == rank_ || !peers_[peer].is_gone();
                          });
    if (!may_come) return operation;
  }
  return nullptr;
}

}  // namespace kolo::engine
