// The time that schedules take, predicted by a cost model.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "selection/bandwidth.hpp"
#include "selection/cost_model.hpp"

namespace kolo::selection {

/// How finely predict() plays: finer takes longer. The default is enough to compare algorithms.
struct PlayLimits {
  std::uint32_t pieces = 8;             ///< of a message, at most
  std::uint32_t total_pieces = 20'000;  ///< of all messages together, which then have fewer pieces each
};

/// Plays the schedules of all ranks on the model's processors and links. Returns the seconds until the last
/// rank is done. Every rank is one processor that does one thing at a time. The ranks of a host share its
/// cores. A host's link carries one message at a time in each direction, from or to any host. Messages longer
/// than a segment travel in pieces, as the engine sends them, so that the next step may begin with the first
/// piece. The schedules must have passed the checker.
///
/// part_bytes: bytes per part, like the part_counts of check_schedules(). hosts: as ScheduleSpec::hosts.
/// bandwidth: between the hosts, in bytes a second; if empty, the model's `wire_per_byte` is used.
double predict(std::span<const schedule::Schedule> schedules, std::span<const std::uint64_t> part_bytes,
               std::span<const int> hosts, const CostModel& model, const BandwidthMatrix& bandwidth = {},
               const PlayLimits& limits = {});

}  // namespace kolo::selection
