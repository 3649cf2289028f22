// Which rank differs, and in what.
#include "ranks/agreement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "train/support/ranks.hpp"

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
  EXPECT_EQ(difference("a\nb\n", "a\nb\n", 1, 0), "");
  EXPECT_EQ(difference("a\nb\nc\n", "a\nx\ny\n", 1, 0), "rank 1 has b where rank 0 has x");
  EXPECT_EQ(difference("a\n", "a\nb\n", 1, 0), "rank 1 has nothing where rank 0 has b");
}

/// What agree() throws on all of three ranks, of which one has other lines or a problem.
std::string refused(int odd, const std::string& lines, const std::string& problem = {}) {
  return test::error_of_all(3, [&](Communicator& communicator) {
    const bool is_odd = communicator.rank() == odd;
    std::string mine;
    try {
      agree(communicator, "Thing", mine, [&] {
        if (is_odd && !problem.empty()) throw InvalidArgumentError(problem, {});
        mine = is_odd ? lines : "one\ntwo\n";
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.context().peer, odd);
      EXPECT_EQ(error.context().collective, "Thing");
      EXPECT_EQ(dynamic_cast<const InvalidArgumentError*>(&error) != nullptr, !problem.empty());
      throw;
    }
  });
}

TEST(Agreement, AllRanksAreToldWhichOneDiffersOrCannot) {
  EXPECT_EQ(refused(2, "one\n2\n"), "Thing: rank 2 has 2 where rank 0 has two [K701]");
  EXPECT_EQ(refused(0, "one\n"), "Thing: rank 0 has nothing where rank 1 has two [K701]") << "most are right";
  EXPECT_EQ(refused(1, "", "no model"), "Thing: rank 1: no model");
  const std::string other = test::error_of_all(2, [&](Communicator& communicator) {
    agree(communicator, communicator.rank() == 0 ? "Thing" : "Other", "");
  });
  EXPECT_EQ(other, "Thing: rank 1 has Other where rank 0 has Thing [K701]");
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
