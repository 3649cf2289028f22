// The measuring loop: the same code for kolo and for every peer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "bench/contestant.hpp"
#include "bench/noise.hpp"

namespace kolo::bench {

/// How long one case is measured.
struct Policy {
  int warmup = 3;              ///< iterations before the clock counts
  int iterations = 0;          ///< exactly so many; 0: by time, as follows
  int min_iterations = 20;     ///< at least so many,
  double min_seconds = 0.3;    ///< and at least so long in timed calls,
  int max_iterations = 20000;  ///< but no more than so many
};

/// What came out, complete on rank 0.
struct Sample {
  std::string algorithm;
  std::vector<double> times_us;  ///< of each iteration: the slowest rank's time
  std::uint64_t wrong = 0;       ///< elements, over all ranks and iterations, warm-up included
  Deviation deviation = {};      ///< likewise, in a format that rounds
  double cpu_us = 0;  ///< of an iteration: processor time of all ranks' threads during the call, on average
};

/// In each iteration: rewrites every rank's input (and spoils its output), barrier, timed call, barrier,
/// verifies every element on every rank, and in a format that rounds that all ranks hold the same bits. Rank
/// 0 decides how many. `iteration` numbers the inputs and is advanced alike on all.
Sample measure(Contestant& contestant, const Case& what, const std::string& algorithm, const Policy& policy,
               std::uint64_t& iteration);

}  // namespace kolo::bench
