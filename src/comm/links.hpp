// The speed of hosts' links, measured while a communicator is made.
#pragma once

#include <vector>

#include "kolo/communicator.hpp"
#include "selection/bandwidth.hpp"

namespace kolo::comm {

/// The first rank of each host, in the order of their numbers. hosts: as ScheduleSpec::hosts.
std::vector<int> leaders_of(const Communicator& communicator, const std::vector<int>& hosts);

/// Collective, the same result on all ranks: the bandwidths between hosts, if their links are of very unequal
/// speed. Each host sends to its local peers on both sides, all hosts at once. Empty if the links look alike,
/// or are so fast that the processors are the limit.
selection::BandwidthMatrix measure_links(Communicator& communicator, const std::vector<int>& hosts);

}  // namespace kolo::comm
