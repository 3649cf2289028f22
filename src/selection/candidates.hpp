// Candidates: the algorithms and arguments that may serve a call.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::selection {

/// All that support the call, in the registry's order: each algorithm with its defaults, and with the
/// arguments that are worth trying. If `slow_hosts` is not empty, also those that spare these hosts.
/// Algorithms with very many messages are left out (naive with a thousand ranks), because examining them
/// takes long. Algorithms that send no messages, because the ranks share memory, stay.
std::vector<algorithms::ConfiguredAlgorithm> candidates(const algorithms::ScheduleSpec& spec,
                                                        const schedule::CallKey& key,
                                                        const std::vector<int>& slow_hosts = {},
                                                        bool shares_memory = false);

/// Whether the candidate is one of those that spare `slow_hosts`.
bool spares(const algorithms::ConfiguredAlgorithm& candidate, const algorithms::ScheduleSpec& spec,
            const std::vector<int>& slow_hosts);

}  // namespace kolo::selection
