// Measurement of how far the sums of one algorithm are from exact ones, over several draws of the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "evaluation/evaluate.hpp"
#include "precision/contributions.hpp"
#include "precision/sum_error.hpp"

namespace kolo::precision {

/// A value.
struct Request {
  Data data = Data::normal;
  Order order = Order::drawn;
  Arithmetic arithmetic = {};
  std::uint64_t count = 0;  ///< elements a rank
  int seeds = 1;            ///< draws, with seeds 1, 2, ...
  int ranks_per_host = 0;   ///< 0: all ranks on one host
};

/// A value.
struct Measured {
  ConfiguredAlgorithm algorithm = {};
  int ranks = 0;
  int ranks_per_host = 0;
  std::string unable = {};   ///< why the algorithm cannot serve the case; then no member below is valid
  double unit_roundoff = 0;  ///< u: the largest relative error of one rounding
  int roundings = 0;         ///< the maximum number between a contribution and the result
  std::vector<SumError> of_seeds = {};
  bool same_bits = true;  ///< on all ranks, with every seed
};

/// Evaluates the schedules of all_reduce, a sum, for each seed.
Measured measure(const ConfiguredAlgorithm& algorithm, int ranks, const Request& request);

}  // namespace kolo::precision
