#include "pipeline/schedule.hpp"

#include <algorithm>
#include <array>

#include "kolo/error.hpp"

namespace kolo {
namespace {

constexpr std::array kScheduleNames{"gpipe", "1f1b", "interleaved"};

}  // namespace

std::vector<std::string> pipeline_schedule_names() {
  return {kScheduleNames.begin(), kScheduleNames.end()};
}

PipelineSchedule parse_pipeline_schedule(const std::string& name) {
  const auto found = std::ranges::find(kScheduleNames, name);
  if (found != kScheduleNames.end()) return static_cast<PipelineSchedule>(found - kScheduleNames.begin());
  throw InvalidArgumentError("there is no schedule '" + name + "': it is gpipe, 1f1b or interleaved", {});
}

namespace train {
namespace {

/// The k-th forward, or backward, of a rank with several chunks: groups of as many micro-batches as there are
/// ranks go through one chunk after the other.
Action nth(const PipelineShape& shape, bool is_forward, int k) {
  const int in_group = k % shape.stages();
  const int chunk = in_group / shape.ranks;
  return {is_forward, k / shape.stages() * shape.ranks + in_group % shape.ranks,
          is_forward ? chunk : shape.chunks - 1 - chunk};
}

/// Forwards that come before the first backward.
int warm_up_of(const PipelineShape& shape, int rank) {
  const int all = shape.micro_batches * shape.chunks;
  const int behind = shape.ranks - 1 - rank;
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
      return all;
    case PipelineSchedule::one_forward_one_backward:
      return std::min(all, behind);
    case PipelineSchedule::interleaved:
      // Twice as many as the ranks behind: transfers hide behind the forwards in between.
      return std::min(all, 2 * behind + (shape.chunks - 1) * shape.ranks);
  }
  return all;
}

}  // namespace

void require_shape(const PipelineShape& shape) {
  std::string problem;
  if (shape.micro_batches < 1) {
    problem = "a step of " + std::to_string(shape.micro_batches) + " micro-batches computes nothing";
  } else if (shape.chunks < 1) {
    problem = "a rank cannot have " + std::to_string(shape.chunks) + " chunks";
  } else if (shape.schedule != PipelineSchedule::interleaved && shape.chunks > 1) {
    problem = "several chunks want the schedule interleaved";
  } else if (shape.schedule == PipelineSchedule::interleaved && shape.micro_batches % shape.ranks != 0) {
    problem = "an interleaved schedule takes micro-batches in groups of " + std::to_string(shape.ranks) +
              ", one for each rank, and " + std::to_string(shape.micro_batches) + " is no multiple of that";
  }
  if (!problem.empty()) throw InvalidArgumentError(problem, {});
}

std::vector<Action> actions_of(const PipelineShape& shape, int rank, bool with_backward) {
  const int all = shape.micro_batches * shape.chunks;
  const int warm_up = with_backward ? warm_up_of(shape, rank) : all;
  std::vector<Action> actions;
  for (int k = 0; k < warm_up; ++k) actions.push_back(nth(shape, true, k));
  if (!with_backward) return actions;
  if (shape.schedule == PipelineSchedule::gpipe) {
    for (int k = all; k-- > 0;) actions.push_back({false, k, 0});
    return actions;
  }
  for (int k = warm_up; k < all; ++k) {
    actions.push_back(nth(shape, true, k));
    actions.push_back(nth(shape, false, k - warm_up));
  }
  for (int k = all - warm_up; k < all; ++k) actions.push_back(nth(shape, false, k));
  return actions;
}

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

}  // namespace train
}  // namespace kolo
