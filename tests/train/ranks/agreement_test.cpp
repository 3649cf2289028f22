// Which rank differs, and in what.
#include "ranks/agreement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kolo::train {
namespace {

std::string odd(const std::vector<std::uint64_t>& by_rank) {
  const auto found = find_odd(by_rank);
  return found ? std::to_string(found->rank) + " unlike " + std::to_string(found->usual) : "none";
}

TEST(Agreement, TheOddRankIsTheOneUnlikeMost) {
  EXPECT_EQ(odd({7}), "none");
  EXPECT_EQ(odd({7, 7, 7}), "none");
  EXPECT_EQ(odd({7, 8}), "1 unlike 0");
  EXPECT_EQ(odd({7, 7, 8, 7}), "2 unlike 0");
  EXPECT_EQ(odd({8, 7, 7}), "0 unlike 1");
  EXPECT_EQ(odd({1, 2, 2, 1}), "1 unlike 0");
  EXPECT_EQ(odd({1, 2, 3, 4, 4}), "0 unlike 3");
}

TEST(Agreement, TheFirstLineThatDiffersIsTold) {
  const auto told = [](const std::string& mine, const std::string& others) {
    return difference(mine, others, "rank 1", "rank 0", "line");
  };
  EXPECT_EQ(told("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(told("a\nb\nc\n", "a\nx\ny\n"), "rank 1 has b where rank 0 has x");
  EXPECT_EQ(told("a\n", "a\nb\n"), "rank 1 has no further line where rank 0 has b");
}

TEST(Agreement, HashesSeeEveryByteAndTheLength) {
  std::vector<std::uint8_t> bytes(21, 0);
  const std::uint64_t zeros = hash_of(bytes.data(), bytes.size());
  EXPECT_NE(hash_of(bytes.data(), bytes.size() - 1), zeros);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 1;
    EXPECT_NE(hash_of(bytes.data(), bytes.size()), zeros) << i;
    bytes[i] = 0;
  }
}

}  // namespace
}  // namespace kolo::train
