// Which survivors of a group may go on alone.
#include "comm/membership.hpp"

#include <gtest/gtest.h>

namespace kolo::comm {
namespace {

// Of a group in order: 2 is a member, 1 is missing, 0 is out.

TEST(HasQuorum, MoreThanHalfMayGoOn) {
  EXPECT_TRUE(has_quorum("222"));
  EXPECT_TRUE(has_quorum("122"));
  EXPECT_TRUE(has_quorum("11222"));
  EXPECT_FALSE(has_quorum("112"));
  EXPECT_FALSE(has_quorum("22111"));
}

TEST(HasQuorum, ExactlyHalfMayGoOnWithTheLowestRank) {
  EXPECT_TRUE(has_quorum("21"));
  EXPECT_TRUE(has_quorum("2112"));
  EXPECT_FALSE(has_quorum("12"));
  EXPECT_FALSE(has_quorum("1212"));
}

TEST(HasQuorum, RanksThatAreOutDoNotCount) {
  EXPECT_TRUE(has_quorum("00002"));
  EXPECT_TRUE(has_quorum("001022"));
  EXPECT_FALSE(has_quorum("001012"));
}

TEST(HasQuorum, TheLowestRankIsTheLowestThatIsNotOut) {
  EXPECT_TRUE(has_quorum("0021"));
  EXPECT_FALSE(has_quorum("0012"));
}

TEST(HasQuorum, OneRankIsEnough) {
  EXPECT_TRUE(has_quorum("2"));
}

TEST(HasQuorum, NobodyIsNot) {
  EXPECT_FALSE(has_quorum("1"));
  EXPECT_FALSE(has_quorum("1111"));
  EXPECT_FALSE(has_quorum("000"));
  EXPECT_FALSE(has_quorum("010"));
  EXPECT_FALSE(has_quorum(""));
}

}  // namespace
}  // namespace kolo::comm
