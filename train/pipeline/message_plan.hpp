// MessagePlan: which messages a rank of a pipeline receives, from whom, in which order, and when it asks.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "pipeline/schedule.hpp"

namespace kolo::train {

/// The output of stage `border`, which goes to the next stage, or the gradient of that output, which comes
/// back.
struct BorderMessage {
  int border = 0;
  int micro_batch = 0;
  bool is_output = true;
  auto operator<=>(const BorderMessage&) const = default;
};

/// Derived once from all ranks' schedules. Two ranks may have several borders in common, and outputs and
/// gradients between them: the k-th message from a peer is the k-th that the peer's schedule sends.
struct MessagePlan {
  /// Receives are posted for an action and so many that follow it.
  static constexpr std::size_t kAhead = 2;

  MessagePlan(const PipelineShape& shape, int rank, bool with_backward);

  PipelineShape shape;
  int rank;
  std::vector<Action> actions;
  std::vector<std::vector<BorderMessage>> incoming;  ///< by peer; of this rank itself: none
  /// By action and peer: how many of `incoming` are posted before the action runs.
  std::vector<std::vector<std::size_t>> posted;

  int stage_of(const Action& action) const { return action.chunk * shape.ranks + rank; }
  int rank_of(int stage) const { return stage % shape.ranks; }
  /// The rank that a message comes from, and the one that it goes to.
  int source_of(const BorderMessage& message) const {
    return rank_of(message.border + (message.is_output ? 0 : 1));
  }
  int target_of(const BorderMessage& message) const {
    return rank_of(message.border + (message.is_output ? 1 : 0));
  }
  /// What an action needs, or sends when it is over; nothing at the ends of the pipeline.
  std::optional<BorderMessage> needed_by(const Action& action) const;
  std::optional<BorderMessage> sent_by(const Action& action) const { return sent_by(action, rank); }

 private:
  std::optional<BorderMessage> sent_by(const Action& action, int by) const;
};

}  // namespace kolo::train
