// The checks that need only one rank's schedule.
#pragma once

#include "base/status.hpp"
#include "schedule/lengths.hpp"
#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// Checks that every step is well formed: its peer exists; it waits for earlier steps only; its ranges are in
/// bounds and of one length; it does not write the input; what it writes is separate from what it reads, or
/// exactly the same.
Status check_steps(const Schedule& schedule, const ChunkLengths& lengths);

/// Checks that dependencies order every two steps that touch the same memory, one of them writing, in each
/// way in which the schedule may be bound. The steps must be well formed.
Status check_hazards(const Schedule& schedule);

}  // namespace kolo::schedule
