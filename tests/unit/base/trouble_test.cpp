// Codes of causes: which one a text gets, and what is said of it.
#include "kolo/trouble.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/status.hpp"

namespace kolo {
namespace {

TEST(WithCode, EndsTheTextWithTheCodeOfItsCause) {
  EXPECT_EQ(with_code("no store answered at tcp://a:1 within 5 s (last: no answer yet)"),
            "no store answered at tcp://a:1 within 5 s (last: no answer yet) [K104]");
}

TEST(WithCode, LooksForTheCauseWithinWhatIsSaidAroundIt) {
  EXPECT_TRUE(with_code("no store answered at tcp://a:1 within 5 s (last: it has another key: set it)")
                  .ends_with(" [K502]"));
  EXPECT_TRUE(with_code("cannot open x: No space left on device").ends_with(" [K405]"));
}

TEST(WithCode, IsNotMisledByNamesThatUsersHaveGiven) {
  EXPECT_TRUE(with_code("rank 1 aborted: no store answered at home, it is damaged").ends_with(" [K206]"));
}

TEST(WithCode, LeavesOneCodeAtTheEnd) {
  const std::string once = with_code("ranks disagree about call 3");
  EXPECT_EQ(with_code(once), once);
  EXPECT_EQ(with_code("rank 1 aborted: " + once + "; step 4"), "rank 1 aborted: " + once + "; step 4 [K206]");
}

TEST(WithCode, LeavesATextOfUnknownCause) {
  EXPECT_EQ(with_code("x [K1] y"), "x [K1] y");
  EXPECT_EQ(with_code("x", "K901"), "x [K901]");
  EXPECT_EQ(with_code(""), "");
}

TEST(WithCode, IsInWhatAStatusThrows) {
  try {
    Status(Code::peer_lost, "lost rank 2: Connection closed by peer (tcp)").throw_if_error();
    FAIL();
  } catch (const PeerLostError& error) {
    EXPECT_STREQ(error.what(), "lost rank 2: Connection closed by peer (tcp) [K201]");
  }
}

TEST(ExplainError, TakesACodeOrAText) {
  const std::string entry = explain_error("K104");
  EXPECT_TRUE(entry.starts_with("K104 ")) << entry;
  EXPECT_NE(entry.find("MASTER_ADDR"), std::string::npos);
  EXPECT_EQ(entry.find("K105"), std::string::npos);
  EXPECT_EQ(explain_error("[rank0] no store answered at tcp://a:1"), entry);
  EXPECT_EQ(explain_error("anything [K104]"), entry);
  EXPECT_EQ(explain_error("K000"), "");
  EXPECT_EQ(explain_error(""), "");
}

}  // namespace
}  // namespace kolo
