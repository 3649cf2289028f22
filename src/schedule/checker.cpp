#include "schedule/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "schedule/lengths.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/rank_check.hpp"
#include "schedule/refusal.hpp"
#include "schedule/symbolic_run.hpp"
#include "schedule/timetable.hpp"

namespace kolo::schedule {
namespace {

/// All ranks must have schedules of the same call.
Status check_agreement(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts) {
  if (schedules.empty()) return Status(Code::invalid_argument, "there are no schedules to check");
  const Schedule& first = schedules[0];
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const Schedule& schedule = schedules[r];
    if (schedule.rank != static_cast<std::int32_t>(r)) {
      return refuse(schedule, fmt::format("it stands where the schedule of rank {} should", r));
    }
    if (schedule.size != static_cast<std::int64_t>(schedules.size())) {
      return refuse(schedule,
                    fmt::format("it is for {} ranks, but there are {}", schedule.size, schedules.size()));
    }
    if (static_cast<std::size_t>(schedule.collective) >= kCollectives.size())
      return refuse(schedule, "there is no such collective");
    if (schedule.collective != first.collective || schedule.root != first.root ||
        schedule.chunks != first.chunks || schedule.out_of_place_only != first.out_of_place_only) {
      return refuse(schedule, "its collective, root, chunks or placement are not those of rank 0");
    }
    if (has_root(schedule.collective) && (schedule.root < 0 || schedule.root >= schedule.size)) {
      return refuse(schedule, fmt::format("there is no rank {} to be the root", schedule.root));
    }
  }
  if (part_counts.size() == part_count(first)) return {};
  return refuse(first, fmt::format("it needs {} part counts, not {}", part_count(first), part_counts.size()));
}

/// In place, all_to_all exchanges equal parts only.
bool may_be(const Schedule& schedule, Sharing sharing, std::span<const std::uint64_t> part_counts) {
  if (!may_be(schedule, sharing)) return false;
  if (schedule.collective != Collective::all_to_all || sharing == Sharing::separate) return true;
  return std::adjacent_find(part_counts.begin(), part_counts.end(), std::not_equal_to<>()) ==
         part_counts.end();
}

ScheduleTotals totals_of(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
                         const MessageGraph& graph) {
  ScheduleTotals totals{.messages = graph.messages(), .rounds = graph.rounds()};
  totals.steps = Timetable(schedules, graph).steps();
  std::vector<std::uint64_t> received(schedules.size(), 0);
  for (const Schedule& schedule : schedules) {
    const ChunkLengths lengths = chunk_lengths(schedule, part_counts);
    std::uint64_t sent = 0;
    std::map<std::int32_t, std::uint64_t> over_link;
    for (const Step& step : schedule.steps) {
      if (step.kind != StepKind::send) continue;
      const std::uint64_t length = lengths.of(step.a);
      sent += length;
      received[static_cast<std::size_t>(step.peer)] += length;
      totals.max_link = std::max(totals.max_link, over_link[step.peer] += length);
    }
    totals.max_sent = std::max(totals.max_sent, sent);
  }
  for (const std::uint64_t length : received) totals.max_received = std::max(totals.max_received, length);
  return totals;
}

}  // namespace

Status check_schedules(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
                       bool rank_ordered, ScheduleTotals* totals) {
  if (Status status = check_agreement(schedules, part_counts); !status.ok()) return status;

  for (const Schedule& schedule : schedules) {
    const ChunkLengths lengths = chunk_lengths(schedule, part_counts);
    if (Status status = check_steps(schedule, lengths); !status.ok()) return status;
    if (Status status = check_hazards(schedule); !status.ok()) return status;
  }

  const Result<MessageGraph> graph = MessageGraph::build(schedules);
  if (!graph.ok()) return graph.status();
  if (division_of(schedules[0]).input == 0) {
    if (Status status = check_barrier(schedules, graph.value()); !status.ok()) return status;
  }
  for (const Sharing sharing : kSharings) {
    if (!may_be(schedules[0], sharing, part_counts)) continue;
    Status status = run_symbolically(schedules, graph.value(), part_counts, sharing, rank_ordered);
    if (!status.ok()) return status;
  }
  if (totals) *totals = totals_of(schedules, part_counts, graph.value());
  return {};
}

ScheduleTotals count_totals(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts) {
  return totals_of(schedules, part_counts, MessageGraph::build(schedules).value());
}

}  // namespace kolo::schedule
