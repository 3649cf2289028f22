// The measuring loop for kolo and every peer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "bench/contestant.hpp"
#include "bench/noise.hpp"

namespace kolo::bench {

/// The number of iterations of one case.
struct Policy {
  int warmup = 3;              ///< iterations before the clock counts
  int iterations = 0;          ///< exact number of timed iterations; 0: by time, as follows
  int min_iterations = 20;     ///< minimum number of timed iterations
  double min_seconds = 0.3;    ///< minimum time in timed calls
  int max_iterations = 20000;  ///< maximum number of timed iterations
};

/// The result, complete on rank 0.
struct Sample {
  std::string algorithm;
  std::vector<double> times_us;  ///< the slowest rank's time of a step, the mean over those of an iteration
  std::uint64_t wrong = 0;       ///< wrong elements over all ranks and iterations, including the warm-up
  Deviation deviation = {};      ///< rounding error over all ranks and iterations, in a wire format
  double cpu_us = 0;             ///< mean processor time of all ranks' threads during one call
};

/// Each iteration: writes the inputs (and overwrites the outputs), barrier, timed steps, barrier, verifies
/// every element on every rank; with a wire format also that all ranks hold the same bits. A step is the call
/// with the computing before it. Rank 0 decides the number of iterations. `iteration` numbers the inputs and
/// advances alike on all ranks.
Sample measure(Contestant& contestant, const Case& what, const std::string& algorithm, const Policy& policy,
               std::uint64_t& iteration);

}  // namespace kolo::bench
