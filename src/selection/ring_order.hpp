// The order of a ring: which rank follows which, when links are of unequal speed.
#pragma once

#include <vector>

#include "selection/bandwidth.hpp"

namespace kolo {

/// The slowest link of a ring that visits `order` and returns to its first; infinite for fewer than two.
double slowest_link(const BandwidthMatrix& bandwidth, const std::vector<int>& order);

/// The directed ring over all of the matrix whose slowest link is fastest (bottleneck Hamiltonian cycle), and
/// among those the one with the least sum of 1/bandwidth. It begins with 0. Exact for up to 12 (dynamic
/// programming over subsets: M. Held, R. Karp: A dynamic programming approach to sequencing problems, J. SIAM
/// 10 (1962)); beyond, the best of several starts of local search (a stretch of the ring moved elsewhere,
/// turned round or not).
///
/// Links within `tolerance` of each other count as equal, so that noise in the measurement does not shuffle
/// a ring: 0.2 is one fifth.
std::vector<int> fastest_ring(const BandwidthMatrix& bandwidth, double tolerance = 0.2);

}  // namespace kolo
