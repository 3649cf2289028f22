// Candidates: the algorithms and arguments that may serve a call.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo {

/// All that support the call, in the registry's order: each algorithm as it is, and with the arguments that
/// are worth trying; where `slow_hosts` have slower links than the others, also those that spare them. Those
/// with very many messages are left out (naive with a thousand ranks), because only looking at them would
/// take long; not those that send none, since the ranks share memory.
std::vector<Configured> candidates(const ScheduleSpec& spec, const Demands& demands,
                                   const std::vector<int>& slow_hosts = {}, bool shares_memory = false);

}  // namespace kolo
