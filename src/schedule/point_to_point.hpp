// Schedules of send and recv: one step each, so that the engine runs them like any collective.
#pragma once

#include "schedule/schedule.hpp"

namespace kolo {

/// `rank` sends input[0] to `peer`; a message to oneself is not a schedule's matter.
Schedule make_send(int rank, int size, int peer);
/// `rank` receives output[0] from `peer`.
Schedule make_recv(int rank, int size, int peer);

}  // namespace kolo
