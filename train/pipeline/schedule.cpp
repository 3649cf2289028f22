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

std::string problem_of_shape(const PipelineShape& shape) {
  if (shape.micro_batches < 1)
    return "a step of " + std::to_string(shape.micro_batches) + " micro-batches computes nothing";
  if (shape.chunks < 1) return "a rank cannot have " + std::to_string(shape.chunks) + " chunks";
  if (shape.schedule != PipelineSchedule::interleaved) {
    if (shape.chunks == 1) return {};
    return "several chunks want the schedule interleaved";
  }
  if (shape.micro_batches % shape.ranks == 0) return {};
  return "an interleaved schedule takes micro-batches in groups of " + std::to_string(shape.ranks) +
         ", one for each rank, and " + std::to_string(shape.micro_batches) + " is no multiple of that";
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

}  // namespace train
}  // namespace kolo
