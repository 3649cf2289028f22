// What the checker can tell from one rank's schedule alone.
#pragma once

#include "base/status.hpp"
#include "schedule/lengths.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

/// Every step is well formed: its peer exists, it waits for earlier steps only, its ranges are in bounds and
/// of one length, it does not write the input, what it writes is apart from what it reads or exactly that.
Status check_steps(const Schedule& schedule, const ChunkLengths& lengths);

/// Every two steps that touch the same memory, one of them writing, are ordered by dependencies, in each way
/// in which the schedule may be bound. The steps must be well formed.
Status check_hazards(const Schedule& schedule);

}  // namespace kolo
