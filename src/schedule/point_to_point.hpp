// Schedules of send and recv: one step each, so that the engine runs them like collectives.
#pragma once

#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// `rank` sends input[0] to `peer`, which must be another rank.
Schedule make_send(int rank, int size, int peer);
/// `rank` receives output[0] from `peer`.
Schedule make_recv(int rank, int size, int peer);

}  // namespace kolo::schedule
