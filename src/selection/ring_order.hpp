// The order of a ring when links have unequal speeds.
#pragma once

#include <vector>

#include "selection/bandwidth.hpp"

namespace kolo::selection {

/// The slowest link of a ring that visits `order` and returns to its first member; infinite for fewer than
/// two.
double slowest_link(const BandwidthMatrix& bandwidth, const std::vector<int>& order);

/// The directed ring over all of the matrix whose slowest link is fastest (bottleneck Hamiltonian cycle);
/// among those, the one with the least sum of 1/bandwidth. It begins with 0. Exact for up to 12 (dynamic
/// programming over subsets: M. Held, R. Karp: A dynamic programming approach to sequencing problems, J. SIAM
/// 10 (1962)). Beyond 12, the best of several starts of a local search that moves or reverses stretches of
/// the ring.
///
/// Links within `tolerance` of each other count as equal, so that noise in the measurement does not shuffle
/// a ring: 0.2 is one fifth.
std::vector<int> fastest_ring(const BandwidthMatrix& bandwidth, double tolerance = 0.2);

}  // namespace kolo::selection
