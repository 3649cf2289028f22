// Codes of causes: which one a text gets, and what is said of it.
#include "kolo/trouble.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

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

TEST(WithCode, TakesNoEverydayWordForACause) {
  const std::pair<const char*, const char*> cases[] = {
      {"cannot start kolo: not found in PATH", "K902"},
      {"--ranks and --hosts exclude each other: --hosts a:2 starts 2 ranks on a", "K901"},
      {"half a cycle of a triangular schedule has no steps", "K708"},
      {"PipelineParallel: no_sync() has no use, as step() has all micro-batches", "K707"},
      {"cannot start a process: too many open files (ulimit -n)", "K403"},
      {"cannot start a process (ulimit -u, or pids.max of the control group): Resource temporarily "
       "unavailable",
       "K403"},
      {"lost rank 4: it cannot be reached (Connection closed by peer): connect: Connection refused", "K201"},
      {"tcp at 10.0.0.1:2 cannot take more connections: Too many open files (ulimit -n)", "K403"},
      {"no store answered at tcp://10.0.0.1:2 within 15 s (last: no answer in time)", "K104"},
      {"rank 0 cannot serve the store at tcp://10.0.0.1:2: bind: Cannot assign requested address", "K105"},
      {"rank 1 cannot load the checkpoint: a: No such file or directory", "K801"},
      {"no trust between this process and the store there: it has another key: set it", "K502"},
      {"the store refused 10.0.0.1: it refused this rank's key: Options::key, KOLO_KEY or the file of "
       "KOLO_KEY_FILE "
       "must be the same on all ranks, and set on all or on none",
       "K502"},
      {"no trust between this process and the store there: it refused this rank because it wants another "
       "kind of "
       "encryption; KOLO_TLS and KOLO_TLS_CERT must be set on all ranks or on none",
       "K504"},
  };
  for (const auto& [text, code] : cases) EXPECT_EQ(with_code(text), std::string(text) + " [" + code + "]");
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
  EXPECT_EQ(with_code("kolo has no command 'x'", "K901"), "kolo has no command 'x' [K901]");
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
  EXPECT_EQ(explain_error("k104"), entry);
  EXPECT_EQ(explain_error("K000"), "");
  EXPECT_EQ(explain_error(""), "");
}

}  // namespace
}  // namespace kolo
