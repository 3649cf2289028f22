#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "algorithms/algorithm.hpp"

/// A new algorithm is a file of its own and a line here. Ordered by collective; the first of each is its
/// default.
#define KOLO_ALGORITHMS(X)      \
  X(all_reduce_ring)            \
  X(all_reduce_central)         \
  X(reduce_scatter_ring)        \
  X(reduce_scatter_direct)      \
  X(all_gather_ring)            \
  X(all_gather_direct)          \
  X(broadcast_binomial)         \
  X(broadcast_direct)           \
  X(reduce_binomial)            \
  X(reduce_direct)              \
  X(scatter_direct)             \
  X(gather_direct)              \
  X(all_to_all_direct)          \
  X(all_to_all_direct_in_place) \
  X(barrier_dissemination)

namespace kolo {

#define KOLO_DECLARE(name) extern const Algorithm name;
KOLO_ALGORITHMS(KOLO_DECLARE)
#undef KOLO_DECLARE

namespace {

/// Letters to insert, remove or replace to get from one to the other (Levenshtein).
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const Algorithm> algorithms() {
#define KOLO_LIST(name) name,
  static const std::array kAll = {KOLO_ALGORITHMS(KOLO_LIST)};
#undef KOLO_LIST
  return kAll;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

Result<const Algorithm*> require_algorithm(Collective collective, std::string_view name) {
  if (const Algorithm* found = find_algorithm(collective, name)) return found;
  std::string known;
  std::string_view nearest;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
    if (nearest.empty() || distance(name, algorithm.name) < distance(name, nearest)) nearest = algorithm.name;
  }
  const std::string of(name_of(collective));
  if (known.empty()) return Status(Code::invalid_argument, of + " has no algorithms to choose from");
  return Status(Code::invalid_argument, of + " has no algorithm '" + std::string(name) + "'; it knows " +
                                            known + "; nearest is '" + std::string(nearest) + "'");
}

}  // namespace kolo
