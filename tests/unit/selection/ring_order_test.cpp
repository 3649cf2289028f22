// Rings that avoid slow links.
#include "selection/ring_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace kolo {
namespace {

selection::BandwidthMatrix all_equal(std::size_t n, double value = 1) {
  return selection::BandwidthMatrix(n, std::vector<double>(n, value));
}

std::vector<int> natural(std::size_t n) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool is_ring(const std::vector<int>& order, std::size_t n) {
  std::vector<int> sorted = order;
  std::ranges::sort(sorted);
  return sorted == natural(n) && (n == 0 || order.front() == 0);
}

TEST(FastestRing, StaysNaturalWhereAllLinksAreEqual) {
  for (std::size_t n = 0; n <= 20; ++n)
    EXPECT_EQ(selection::fastest_ring(all_equal(n, 3.5)), natural(n)) << n;
}

TEST(FastestRing, IsNotShuffledByNoise) {
  std::mt19937 random(5);
  selection::BandwidthMatrix matrix = all_equal(9);
  for (auto& row : matrix) {
    for (double& value : row) value = 1 - static_cast<double>(random() % 100) / 1000;
  }
  EXPECT_EQ(selection::fastest_ring(matrix), natural(9));
}

TEST(FastestRing, AvoidsOneSlowLink) {
  selection::BandwidthMatrix matrix = all_equal(4);
  matrix[1][2] = matrix[2][1] = 0.1;
  const std::vector<int> ring = selection::fastest_ring(matrix);
  ASSERT_TRUE(is_ring(ring, 4));
  EXPECT_EQ(selection::slowest_link(matrix, ring), 1);
  EXPECT_EQ(selection::slowest_link(matrix, natural(4)), 0.1);
}

TEST(FastestRing, KnowsDirections) {
  selection::BandwidthMatrix matrix = all_equal(3, 0.1);
  matrix[0][2] = matrix[2][1] = matrix[1][0] = 1;
  EXPECT_EQ(selection::fastest_ring(matrix), (std::vector<int>{0, 2, 1}));
}

TEST(FastestRing, CrossesASlowBorderOnlyTwice) {
  // Two switches with alternately numbered hosts. The link between them is slow, and every ring must cross
  // it.
  for (const std::size_t n : {6u, 10u, 14u, 24u}) {
    selection::BandwidthMatrix matrix = all_equal(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i % 2 != j % 2) matrix[i][j] = 0.2;
      }
    }
    const std::vector<int> ring = selection::fastest_ring(matrix);
    ASSERT_TRUE(is_ring(ring, n));
    int crossings = 0;
    for (std::size_t i = 0; i < n; ++i) crossings += (ring[i] + ring[(i + 1) % n]) % 2;
    EXPECT_EQ(crossings, 2) << n;
  }
}

/// The slowest link of the best ring, found by trying all rings.
double best_by_trying(const selection::BandwidthMatrix& matrix) {
  std::vector<int> order = natural(matrix.size());
  double best = 0;
  do {
    best = std::max(best, selection::slowest_link(matrix, order));
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

TEST(FastestRing, IsAsGoodAsTryingAllRings) {
  std::mt19937 random(11);
  for (std::size_t n = 3; n <= 8; ++n) {
    for (int trial = 0; trial < 20; ++trial) {
      selection::BandwidthMatrix matrix = all_equal(n);
      for (auto& row : matrix) {
        for (double& value : row) value = 1 + static_cast<double>(random() % 1000);
      }
      const std::vector<int> ring = selection::fastest_ring(matrix, 0);
      ASSERT_TRUE(is_ring(ring, n));
      EXPECT_EQ(selection::slowest_link(matrix, ring), best_by_trying(matrix)) << n;
    }
  }
}

TEST(FastestRing, FindsAHiddenRingAmongMany) {
  std::mt19937 random(3);
  const std::size_t n = 20;
  std::vector<int> hidden = natural(n);
  std::shuffle(hidden.begin() + 1, hidden.end(), random);
  selection::BandwidthMatrix matrix = all_equal(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    const auto a = static_cast<std::size_t>(hidden[i]), b = static_cast<std::size_t>(hidden[(i + 1) % n]);
    matrix[a][b] = matrix[b][a] = 10;
  }
  EXPECT_EQ(selection::slowest_link(matrix, selection::fastest_ring(matrix)), 10);
}

TEST(SlowestLink, OfFewerThanTwoIsInfinite) {
  EXPECT_EQ(selection::slowest_link(all_equal(1), {0}), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace kolo
