// The symbolic run: what every rank's memory holds at the end, without a single number.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

/// Runs the events in their order on symbolic memory bound as `sharing` says and proves what every output
/// holds. The schedules must have passed the checks of rank_check.hpp; then every order of events gives the
/// same result.
Status run_symbolically(std::span<const Schedule> schedules, const MessageGraph& graph,
                        std::span<const std::uint64_t> part_counts, Sharing sharing, bool rank_ordered);

/// For a barrier: proves that no rank can finish before every rank has started.
Status check_barrier(std::span<const Schedule> schedules, const MessageGraph& graph);

}  // namespace kolo
