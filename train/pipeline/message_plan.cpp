#include "pipeline/message_plan.hpp"

#include <algorithm>

namespace kolo::train {
MessagePlan::MessagePlan(const PipelineShape& shape_, int rank_, bool with_backward)
    : shape(shape_),
      rank(rank_),
      actions(actions_of(shape, rank, with_backward)),
      incoming(static_cast<std::size_t>(shape.ranks)) {
  for (int peer = 0; peer < shape.ranks; ++peer) {
    if (peer == rank) continue;
    for (const Action& action : actions_of(shape, peer, with_backward)) {
      const auto message = sent_by(action, peer);
      if (message && target_of(*message) == rank)
        incoming[static_cast<std::size_t>(peer)].push_back(*message);
    }
  }
  std::vector<std::size_t> count(incoming.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    for (; next < std::min(actions.size(), i + kAhead + 1); ++next) {
      const auto message = needed_by(actions[next]);
      if (!message || source_of(*message) == rank) continue;
      const auto peer = static_cast<std::size_t>(source_of(*message));
      const auto place = std::ranges::find(incoming[peer], *message) - incoming[peer].begin();
      count[peer] = std::max(count[peer], static_cast<std::size_t>(place) + 1);
    }
    posted.push_back(count);
  }
}

std::optional<BorderMessage> MessagePlan::needed_by(const Action& action) const {
  const int stage = stage_of(action);
  if (stage == (action.is_forward ? 0 : shape.last_stage())) return {};
  return BorderMessage{action.is_forward ? stage - 1 : stage, action.micro_batch, action.is_forward};
}

std::optional<BorderMessage> MessagePlan::sent_by(const Action& action, int by) const {
  const int stage = action.chunk * shape.ranks + by;
  if (stage == (action.is_forward ? shape.last_stage() : 0)) return {};
  return BorderMessage{action.is_forward ? stage : stage - 1, action.micro_batch, action.is_forward};
}

}  // namespace kolo::train
