// Derives the hosts' own links from measured bandwidths.
#include "selection/bandwidth.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace kolo {
namespace {

/// Bandwidths between hosts whose links have these bandwidths in each direction.
selection::BandwidthMatrix between(const std::vector<double>& links) {
  selection::BandwidthMatrix matrix;
  for (const double from : links) {
    std::vector<double>& row = matrix.emplace_back();
    for (const double to : links) row.push_back(std::min(from, to));
  }
  return matrix;
}

TEST(HostLinks, CarryAsMuchAsTheirBestConnection) {
  const selection::HostLinks links(between({10, 1, 8}));
  EXPECT_EQ(links.out, (std::vector<double>{8, 1, 8}));
  EXPECT_EQ(links.in, (std::vector<double>{8, 1, 8}));
}

TEST(SlowHosts, AreBelowTheWidestGap) {
  EXPECT_EQ(selection::slow_hosts(between({10, 10, 10, 1})), (std::vector<int>{3}));
  EXPECT_EQ(selection::slow_hosts(between({1, 10, 10, 10})), (std::vector<int>{0}));
  EXPECT_EQ(selection::slow_hosts(between({9, 1, 10, 2, 10, 8})), (std::vector<int>{1, 3}));
}

TEST(SlowHosts, AreNoneWhereLinksDifferByNoise) {
  EXPECT_TRUE(selection::slow_hosts(between({10, 9, 10, 8.5})).empty());
  EXPECT_TRUE(selection::slow_hosts(between({10, 1}))
                  .empty());  // with two hosts it is unknown which link is the slow one
  EXPECT_TRUE(selection::slow_hosts({}).empty());
}

TEST(SlowHosts, AreNotThoseOfOneSlowPair) {
  selection::BandwidthMatrix matrix = between({10, 10, 10, 10});
  matrix[1][2] = matrix[2][1] = 1;
  EXPECT_TRUE(selection::slow_hosts(matrix).empty());
}

TEST(BandwidthsBetween, AreAllOrNone) {
  selection::TuningTable table;
  table.set_bandwidth("a", "b", 1);
  table.set_bandwidth("b", "a", 2);
  EXPECT_EQ(selection::bandwidths_between({"b", "a"}, table), (selection::BandwidthMatrix{{0, 2}, {1, 0}}));
  EXPECT_TRUE(selection::bandwidths_between({"a", "b", "c"}, table).empty());
  EXPECT_TRUE(selection::bandwidths_between({"a"}, table).empty());
}

}  // namespace
}  // namespace kolo
