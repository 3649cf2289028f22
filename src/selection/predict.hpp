// The time that schedules take, by a cost model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"
#include "selection/bandwidth.hpp"
#include "selection/cost_model.hpp"

namespace kolo {

/// How finely predict() plays: more takes longer. The default is enough for comparing algorithms.
struct PlayLimits {
  std::uint32_t pieces = 8;             ///< of a message, at most
  std::uint32_t total_pieces = 20'000;  ///< of all messages together; where they are more, each has fewer
};

/// Plays the schedules of all ranks on the model's processors and links and returns the seconds until the
/// last rank is done. Every rank is one processor that does one thing at a time, the ranks of a host share
/// its cores, a host's link carries one message at a time each way, whatever hosts it comes from or goes to.
/// Messages longer than a segment travel in pieces, as the engine sends them, so that what follows may begin
/// with the first piece. The schedules must have passed the checker.
///
/// part_bytes: bytes per part, as check_schedules() takes counts. hosts: as ScheduleSpec::hosts. bandwidth:
/// between the hosts, in bytes a second; where it is empty, the model's wires are all there is to know.
double predict(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_bytes,
               std::span<const int> hosts, const CostModel& model, const BandwidthMatrix& bandwidth = {},
               const PlayLimits& limits = {});

}  // namespace kolo
