// The bandwidth from each host to each other one.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "kolo/communicator.hpp"

namespace kolo::tune {

/// Of nothing, to know what that takes: who is late once is not late in all of them.
inline constexpr int kRoundTrips = 8;

/// Bytes a second from this rank to `peer`, which calls answer_bandwidth() meanwhile; 0 where that much data
/// took no longer than none, so that nothing can be said. Takes a twentieth of a second or longer.
double bandwidth_to(Communicator& communicator, int peer);
void answer_bandwidth(Communicator& communicator, int peer);

/// Bytes a second by the names of the two hosts; 0 as above.
using Bandwidths = std::map<std::pair<std::string, std::string>, double>;

/// Collective: the first rank of each host sends to that of each other one, one pair at a time, for a
/// twentieth of a second or longer. The same result on all ranks; `progress`, called on rank 0, hears of each
/// pair.
Bandwidths measure_bandwidths(Communicator& communicator, void (*progress)(int done, int of));

}  // namespace kolo::tune
