// The speed of hosts' links, measured while a communicator is made.
#pragma once

#include <vector>

#include "kolo/communicator.hpp"
#include "selection/bandwidth.hpp"

namespace kolo {

/// The first rank of each host, in the order of their numbers. hosts: as ScheduleSpec::hosts.
std::vector<int> leaders_of(const Communicator& communicator, const std::vector<int>& hosts);

/// Collective, the same on all ranks: the bandwidths between hosts whose links are of very unequal speed,
/// from what each sends to its neighbours on both sides, all at once. Empty where links are alike as far as
/// this can tell, and where they are so fast that processors are what is measured.
BandwidthMatrix measure_links(Communicator& communicator, const std::vector<int>& hosts);

}  // namespace kolo
