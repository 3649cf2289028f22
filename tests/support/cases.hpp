// Runs one collective and checks its result: out of place and in place, with every root, with uneven parts.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "support/pattern.hpp"

namespace kolo::test {

struct Case {
  Communicator& communicator;
  CallOptions options;
  DType dtype;
  ReduceOp op;
  /// Allocates memory for an array of this many bytes; null: private memory.
  std::function<ArrayMemory(std::size_t bytes)> memory = nullptr;
  double factor = 1;  ///< factor of all numbers of a reduction

  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
  double own(std::uint64_t i) const { return factor * contribution(rank(), i, op); }
  double all(std::uint64_t i) const { return factor * reduced(size(), i, op, dtype); }
  Array array(std::uint64_t count) const {
    return memory ? Array(count, dtype, memory(Array::bytes_for(count, dtype))) : Array(count, dtype);
  }
  /// Whether the algorithm, if one is named, cannot do what others can.
  bool has_limit(schedule::Collective collective, bool algorithms::Algorithm::*limit) const {
    if (options.algorithm.empty()) return false;
    return algorithms::parse_algorithm(collective, options.algorithm).value().algorithm->*limit;
  }
  /// Equal parts, or uneven parts, of which some are empty and one is tiny. Uneven parts add up to `total`.
  std::vector<std::uint64_t> parts(std::uint64_t total, bool uneven = true) const {
    const auto n = static_cast<std::uint64_t>(size());
    std::vector<std::uint64_t> result(n, total / n);
    if (!uneven) return result;
    for (std::uint64_t r = 1; r < n; ++r) result[r] = r % 3 == 1 ? 0 : total / (n + r);
    if (n > 2) result[2] = std::min<std::uint64_t>(total / n, 3);
    result[0] = total - std::accumulate(result.begin() + 1, result.end(), std::uint64_t{0});
    return result;
  }
  static std::uint64_t before(const std::vector<std::uint64_t>& parts, int rank) {
    return std::accumulate(parts.begin(), parts.begin() + rank, std::uint64_t{0});
  }
};

/// Runs the collective on about `count` elements; called on every rank. Throws if a result is wrong.
void run(schedule::Collective collective, const Case& c, std::uint64_t count);

}  // namespace kolo::test
