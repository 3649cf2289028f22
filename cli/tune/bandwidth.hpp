// The bandwidth from each host to every other host.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "kolo/communicator.hpp"

namespace kolo::tune {

/// Number of empty round trips that measure the latency. The fastest one counts, because a peer that is late
/// once is not late in all of them.
inline constexpr int kRoundTrips = 8;

/// Bytes a second from this rank to `peer`, which calls answer_bandwidth() meanwhile. 0 if the data took no
/// longer than an empty message, so the bandwidth is unknown. Takes a twentieth of a second or longer.
double bandwidth_to(Communicator& communicator, int peer);
void answer_bandwidth(Communicator& communicator, int peer);

/// Bytes a second by the names of the two hosts; 0: unknown.
using Bandwidths = std::map<std::pair<std::string, std::string>, double>;

/// Collective: the first rank of each host sends to the first rank of every other host, one pair at a time,
/// for a twentieth of a second or longer. All ranks get the same result. Rank 0 calls `progress` after each
/// pair.
Bandwidths measure_bandwidths(Communicator& communicator, void (*progress)(int done, int of));

}  // namespace kolo::tune
