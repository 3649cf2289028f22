// Runner: runs a benchmark on one rank; rank 0 also runs the peers and reports.
#pragma once

#include <memory>
#include <vector>

#include "bench/peers.hpp"
#include "bench/settings.hpp"
#include "kolo/communicator.hpp"

namespace kolo::bench {

/// Measures every size in rounds that alternate between kolo and the peers, which rank 0 has. Rank 0 prints
/// the table and writes the JSON. Returns the number of wrong results, complete on rank 0.
std::uint64_t run(const Settings& settings, const Communicator& communicator,
                  std::vector<std::unique_ptr<Peer>>& peers);

}  // namespace kolo::bench
