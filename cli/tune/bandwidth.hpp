// The bandwidth from each host to each other one.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "kolo/communicator.hpp"

namespace kolo::tune {

/// Bytes a second from this rank to `peer`, which calls answer_bandwidth() meanwhile. Takes a twentieth of a
/// second or longer.
double bandwidth_to(Communicator& communicator, int peer);
void answer_bandwidth(Communicator& communicator, int peer);

/// Bytes a second by the names of the two hosts.
using Bandwidths = std::map<std::pair<std::string, std::string>, double>;

/// Collective: the first rank of each host sends to that of each other one, one pair at a time, for a
/// twentieth of a second or longer. The same result on all ranks; `progress`, called on rank 0, hears of each
/// pair.
Bandwidths measure_bandwidths(Communicator& communicator, void (*progress)(int done, int of));

}  // namespace kolo::tune
