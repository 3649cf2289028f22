// The checker: proves a set of schedules correct without a network.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// Totals over the schedules of all ranks, counted while checking.
struct ScheduleTotals {
  std::uint64_t messages = 0;      ///< over all ranks
  std::uint64_t rounds = 0;        ///< messages in the longest chain of waits
  std::uint64_t steps = 0;         ///< as Timetable counts them
  std::uint64_t max_sent = 0;      ///< elements, by the rank that sends most
  std::uint64_t max_received = 0;  ///< elements, by the rank that receives most
  std::uint64_t max_link = 0;      ///< elements, from one rank to one other
};

/// Runs the schedules of ranks 0..N-1 symbolically, each memory cell holding the multiset (for rank-ordered
/// algorithms: the sequence) of contributions in it, for buffers in which the parts have the given element
/// counts. Proves, or explains in one sentence that names rank and step:
///
///  - every output chunk ends with each rank's contribution exactly once (or the right rank's part). If
///    `rank_ordered`, contributions are combined in rank order;
///  - every send matches one receive of the same length, and every receive one send;
///  - all steps finish: no cycle of waits, dependencies only on earlier steps;
///  - ranges are in bounds, input is never written, no memory is read before it is written;
///  - two steps of a rank that touch the same memory, one writing, are ordered by dependencies, out of place
///    and in place;
///  - `completes` is set on exactly the steps that complete a reduction.
///
/// part_counts: elements per part: N entries if the collective has one part per rank, C entries for other
/// collectives (see BufferName). all_to_all: every rank sends part_counts[r] elements to rank r.
Status check_schedules(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
                       bool rank_ordered = false, ScheduleTotals* totals = nullptr);

/// The totals alone, of schedules that have passed the check.
ScheduleTotals count_totals(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts);

}  // namespace kolo::schedule
