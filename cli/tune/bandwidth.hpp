// The bandwidth from each host to each other one.
#pragma once

#include "kolo/communicator.hpp"
#include "selection/table.hpp"

namespace kolo::tune {

/// Collective: the first rank of each host sends to that of each other one, one pair at a time, for some
/// fiftieth of a second. Rank 0's `table` learns the results; `progress`, called on rank 0, hears of each
/// pair.
void measure_bandwidths(Communicator& communicator, TuningTable& table, void (*progress)(int done, int of));

}  // namespace kolo::tune
