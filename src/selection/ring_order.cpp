#include "selection/ring_order.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace kolo::selection {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kExact = 12;
/// Limit of a local search, in orders tried times the square of the number of ranks: some tenths of a second.
constexpr std::size_t kMostSearched = 100'000'000;

/// The cost of a path or ring: its slowest link first, then the sum.
struct Cost {
  double slowest = 0;  // 1/bandwidth: less is better in both fields
  double sum = 0;

  Cost with(double link) const { return {std::max(slowest, link), sum + link}; }
  auto operator<=>(const Cost&) const = default;
};

using Matrix = std::vector<std::vector<double>>;

/// 1/bandwidth, rounded up to steps of (1 + tolerance) below the fastest link.
Matrix rounded_costs(const BandwidthMatrix& bandwidth, double tolerance) {
  double fastest = 0;
  for (std::size_t i = 0; i < bandwidth.size(); ++i) {
    for (std::size_t j = 0; j < bandwidth.size(); ++j) {
      if (i != j) fastest = std::max(fastest, bandwidth[i][j]);
    }
  }
  Matrix costs(bandwidth.size(), std::vector<double>(bandwidth.size(), kInfinite));
  for (std::size_t i = 0; i < bandwidth.size(); ++i) {
    for (std::size_t j = 0; j < bandwidth.size(); ++j) {
      if (i == j || !(bandwidth[i][j] > 0)) continue;
      const double ratio = fastest / bandwidth[i][j];
      costs[i][j] = tolerance > 0
                        ? std::pow(1 + tolerance, std::floor(std::log(ratio) / std::log1p(tolerance)))
                        : ratio;
    }
  }
  return costs;
}

Cost cost_of(const Matrix& costs, const std::vector<int>& order) {
  Cost cost;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    const auto to = static_cast<std::size_t>(order[(i + 1) % order.size()]);
    cost = cost.with(costs[from][to]);
  }
  return cost;
}

/// Held and Karp's paths from 0 through every subset, minimizing the bottleneck instead of the sum.
std::vector<int> exact(const Matrix& costs) {
  const std::size_t n = costs.size();
  const std::size_t subsets = std::size_t{1} << n;
  const Cost never{kInfinite, kInfinite};
  std::vector<std::vector<Cost>> best(subsets, std::vector<Cost>(n, never));
  std::vector<std::vector<std::uint8_t>> before(subsets, std::vector<std::uint8_t>(n, 0));
  best[1][0] = {};
  for (std::size_t subset = 1; subset < subsets; subset += 2) {
    for (std::size_t last = 0; last < n; ++last) {
      if (best[subset][last] == never) continue;
      for (std::size_t next = 1; next < n; ++next) {
        if (subset >> next & 1) continue;
        const std::size_t larger = subset | std::size_t{1} << next;
        const Cost cost = best[subset][last].with(costs[last][next]);
        if (!(cost < best[larger][next])) continue;
        best[larger][next] = cost;
        before[larger][next] = static_cast<std::uint8_t>(last);
      }
    }
  }
  std::size_t last = 1;
  for (std::size_t end = 2; end < n; ++end) {
    const Cost cost = best[subsets - 1][end].with(costs[end][0]);
    if (cost < best[subsets - 1][last].with(costs[last][0])) last = end;
  }
  std::vector<int> order;
  if (best[subsets - 1][last] == never) return order;  // every ring needs a link that does not exist
  for (std::size_t subset = subsets - 1; subset > 1;) {
    order.push_back(static_cast<int>(last));
    const std::size_t previous = before[subset][last];
    subset &= ~(std::size_t{1} << last);
    last = previous;
  }
  order.push_back(0);
  std::reverse(order.begin(), order.end());
  return order;
}

/// From 0 always to the cheapest rank that is left; the first step goes to `start`.
std::vector<int> greedy(const Matrix& costs, int start) {
  std::vector<int> order = {0, start};
  std::vector<bool> visited(costs.size(), false);
  visited[0] = visited[static_cast<std::size_t>(start)] = true;
  while (order.size() < costs.size()) {
    const auto last = static_cast<std::size_t>(order.back());
    std::size_t cheapest = costs.size();
    for (std::size_t next = 0; next < costs.size(); ++next) {
      if (!visited[next] && (cheapest == costs.size() || costs[last][next] < costs[last][cheapest])) {
        cheapest = next;
      }
    }
    visited[cheapest] = true;
    order.push_back(static_cast<int>(cheapest));
  }
  return order;
}

/// Moves stretches of at most three ranks and reverses stretches, as long as that improves the ring.
void improve(const Matrix& costs, std::vector<int>& order) {
  const std::size_t n = order.size();
  Cost best = cost_of(costs, order);
  std::size_t tries = kMostSearched / (n * n);
  for (bool better = true; better && tries > 0;) {
    better = false;
    const auto keep_if_better = [&](std::vector<int> candidate) {
      if (tries > 0) --tries;
      const Cost cost = cost_of(costs, candidate);
      if (!(cost < best)) return;
      best = cost;
      order = std::move(candidate);
      better = true;
    };
    for (std::size_t begin = 1; begin < n && !better; ++begin) {
      for (std::size_t end = begin + 1; end <= n && !better; ++end) {
        std::vector<int> turned = order;
        std::reverse(turned.begin() + static_cast<std::ptrdiff_t>(begin),
                     turned.begin() + static_cast<std::ptrdiff_t>(end));
        keep_if_better(std::move(turned));
        if (end - begin > 3) continue;
        for (std::size_t to = 1; to + (end - begin) <= n && !better; ++to) {
          std::vector<int> moved = order;
          const auto first = moved.begin() + static_cast<std::ptrdiff_t>(begin);
          const std::vector<int> stretch(first, moved.begin() + static_cast<std::ptrdiff_t>(end));
          moved.erase(first, moved.begin() + static_cast<std::ptrdiff_t>(end));
          moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(to), stretch.begin(), stretch.end());
          keep_if_better(std::move(moved));
        }
      }
    }
  }
}

}  // namespace

double slowest_link(const BandwidthMatrix& bandwidth, const std::vector<int>& order) {
  double slowest = kInfinite;
  for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    const auto to = static_cast<std::size_t>(order[(i + 1) % order.size()]);
    slowest = std::min(slowest, bandwidth[from][to]);
  }
  return slowest;
}

std::vector<int> fastest_ring(const BandwidthMatrix& bandwidth, double tolerance) {
  const std::size_t n = bandwidth.size();
  std::vector<int> natural(n);
  std::iota(natural.begin(), natural.end(), 0);
  if (n < 3) return natural;
  const Matrix costs = rounded_costs(bandwidth, tolerance);
  std::vector<int> best = natural;
  const auto consider = [&](const std::vector<int>& order) {
    if (cost_of(costs, order) < cost_of(costs, best)) best = order;
  };
  if (n <= kExact) {
    if (const std::vector<int> order = exact(costs); !order.empty()) consider(order);
    return best;
  }
  const std::size_t starts = std::min(n - 1, n <= 24 ? std::size_t{16} : std::size_t{4});
  improve(costs, best);
  for (std::size_t s = 0; s < starts; ++s) {
    std::vector<int> order = greedy(costs, static_cast<int>(1 + s * (n - 1) / starts));
    improve(costs, order);
    consider(order);
  }
  return best;
}

}  // namespace kolo::selection
