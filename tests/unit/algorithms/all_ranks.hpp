// Shared by the tests of algorithms: the schedules of all ranks, and awkward part counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "schedule/lengths.hpp"
#include "support/variants.hpp"

namespace kolo::algorithms {

// GoogleTest looks for these beside the types.
inline void PrintTo(const ConfiguredAlgorithm& variant, std::ostream* out) {
  *out << schedule::name_of(variant.algorithm->collective) << " " << variant.name();
}
inline void PrintTo(const Algorithm* algorithm, std::ostream* out) {
  PrintTo(ConfiguredAlgorithm{algorithm}, out);
}

}  // namespace kolo::algorithms

namespace kolo {

/// The schedules of all ranks.
inline std::vector<schedule::Schedule> all_ranks(const algorithms::ConfiguredAlgorithm& variant, int size,
                                                 int root = 0, const std::vector<int>& hosts = {}) {
  std::vector<schedule::Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(variant.algorithm->generate(
        {variant.algorithm->collective, rank, size, root, variant.arguments, hosts}));
  }
  return schedules;
}

/// Whether the variant supports this number of ranks.
inline bool serves(const algorithms::ConfiguredAlgorithm& variant, int size, int root = 0,
                   const std::vector<int>& hosts = {}) {
  return algorithms::supports(*variant.algorithm,
                              {variant.algorithm->collective, 0, size, root, variant.arguments, hosts})
      .ok();
}

/// Whether two sets of schedules have the same messages.
inline bool same_steps(const std::vector<schedule::Schedule>& one,
                       const std::vector<schedule::Schedule>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
    return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                      [](const schedule::Step& x, const schedule::Step& y) {
                        return x.kind == y.kind && x.peer == y.peer && x.a == y.a && x.dst == y.dst;
                      });
  });
}

/// Whether they have the same messages in the same order.
inline bool are_alike(const std::vector<schedule::Schedule>& one,
                      const std::vector<schedule::Schedule>& other) {
  return same_steps(one, other) &&
         std::ranges::equal(one, other, [](const schedule::Schedule& a, const schedule::Schedule& b) {
           return a.chunks == b.chunks && a.dependencies == b.dependencies;
         });
}

/// Hosts of unequal size for an algorithm that depends on them: 3, 1, 2, 4, 3, 1, ... ranks.
inline std::vector<int> uneven_hosts(int size) {
  std::vector<int> hosts;
  const std::vector<int> sizes = {3, 1, 2, 4};
  for (int host = 0; static_cast<int>(hosts.size()) < size; ++host) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(sizes[static_cast<std::size_t>(host) % 4]), host);
  }
  hosts.resize(static_cast<std::size_t>(size));
  return hosts;
}

/// All ranks on one host, on hosts of unequal size, and each on a host of its own.
inline std::vector<std::vector<int>> placements(int size) {
  std::vector<int> apart(static_cast<std::size_t>(size));
  std::iota(apart.begin(), apart.end(), 0);
  return {{}, uneven_hosts(size), apart};
}

/// Every root for few ranks, selected roots for many ranks.
inline std::vector<int> roots(const algorithms::Algorithm& algorithm, int size) {
  if (!schedule::has_root(algorithm.collective)) return {0};
  std::vector<int> result;
  if (size <= 9) {
    for (int root = 0; root < size; ++root) result.push_back(root);
  } else {
    result = {0, 1, size / 2, size - 1};
  }
  return result;
}

/// Equal, uneven, prime, sparse and empty parts, `parts` of them each.
inline std::vector<std::vector<std::uint64_t>> awkward_counts(std::uint32_t parts) {
  const std::vector<std::uint64_t> primes = {7, 2, 13, 3, 101, 5, 11};
  std::vector<std::vector<std::uint64_t>> result(7, std::vector<std::uint64_t>(parts, 0));
  for (std::uint32_t i = 0; i < parts; ++i) {
    result[0][i] = 1;
    result[1][i] = 1000;
    result[2][i] = i;                                 // the first is empty
    result[3][i] = primes[i % primes.size()];         // uneven
    result[4][i] = i + 1 == parts ? 17 : 0;           // all elements are in the last part
    result[5][i] = i % 3 == 1 ? 0 : (i % 5) * i + 1;  // some are empty
  }
  return result;  // [6]: all parts are empty
}

/// The counts that the algorithm supports.
inline std::vector<std::vector<std::uint64_t>> awkward_counts(const algorithms::Algorithm& algorithm,
                                                              std::uint32_t parts) {
  auto result = awkward_counts(parts);
  if (algorithm.even_parts_only) {
    std::erase_if(result, [](const auto& counts) {
      return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end();
    });
  }
  return result;
}

}  // namespace kolo
