// Schedules of pipelines as data: what a rank computes, in order, and which messages it receives for that.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "kolo/train/pipeline_parallel.hpp"

namespace kolo::train {

/// Forward or backward of one micro-batch through one of the rank's chunks.
struct Action {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Action&) const = default;
};

/// What makes a schedule. Chunk c of rank r is stage c * ranks + r of ranks * chunks.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;

  int stages() const noexcept { return ranks * chunks; }
  int last_stage() const noexcept { return stages() - 1; }
};

/// Throws InvalidArgumentError where there is no such schedule.
void require_shape(const PipelineShape& shape);

/// Pure: each rank can derive the actions of all ranks. The shape is one that require_shape() takes. Every
/// stage's forward of a micro-batch comes before its backward, and ranks that wait for what an action needs
/// do not wait for each other, whatever computing and sending takes. Without backward: the forwards alone, in
/// this order.
std::vector<Action> actions_of(const PipelineShape& shape, int rank, bool with_backward = true);

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
