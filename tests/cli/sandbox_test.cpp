// Ranks in sandboxes that hide /proc, or whose loopback is not the usual one.
#include <gtest/gtest.h>

#include <chrono>

#include "cli/outcome.hpp"
#include "survivors.hpp"

namespace kolo::test {
namespace {

/// Runs `line` in namespaces of its own, after `prepare`; in it, $1 is kolo and $2 the test's program.
std::vector<std::string> in_sandbox(const std::string& prepare, const std::string& line) {
  return {"unshare",
          "--user",
          "--map-root-user",
          "--mount",
          "--net",
          "--pid",
          "--kill-child",
          "sh",
          "-c",
          prepare + " || exit 77; " + line,
          "sh",
          KOLO_PROGRAM,
          RANK_PROGRAM};
}

class Sandbox : public ::testing::Test {
 protected:
  /// False, after GTEST_SKIP(), if this system does not allow `prepare`.
  static bool allows(const std::string& prepare) {
    Command tried(in_sandbox(prepare, "true"));
    return tried.finish() == 0;
  }
};

constexpr const char* kLoopback = "ip link set lo up";
constexpr const char* kOnlyProcesses = "ip link set lo up && mount -t proc -o subset=pid proc /proc";
constexpr const char* kNoProc = "ip link set lo up && mount -t tmpfs none /proc";

TEST_F(Sandbox, RanksShareMemoryWhereProcIsHidden) {
  for (const char* prepare : {kOnlyProcesses, kNoProc}) {
    if (!allows(prepare)) GTEST_SKIP() << "no namespaces here, or none with " << prepare;
    Command doctor(in_sandbox(prepare, "exec $1 doctor --json"), {{"KOLO_TABLE", "none"}});
    EXPECT_EQ(doctor.finish(), 0) << prepare << doctor.out() << doctor.err();
    EXPECT_EQ(Command::count(doctor.out(), R"("transport":"shm")"), 1) << prepare << doctor.out();
  }
}

TEST_F(Sandbox, WithoutProcNoChildOfARankIsLeft) {
  if (!allows(kNoProc)) GTEST_SKIP() << "no namespaces here, or none without /proc";
  const std::string mark = "sandbox-" + std::to_string(::getpid());
  // kolo run is not the first process of the sandbox, because the system would end what that one leaves.
  Command command(in_sandbox(kNoProc, "$1 run -n 2 -- $2 family 1; echo ended; sleep 1000"),
                  {{"TEST_MARK", mark}});
  ASSERT_TRUE(command.until("ended", 1));
  EXPECT_LE(survivors(mark), 3) << "more than unshare, sh and sleep";
}

TEST_F(Sandbox, LoopbackMayHaveIPv6Alone) {
  const std::string prepare = std::string(kLoopback) + " && ip addr del 127.0.0.1/8 dev lo";
  if (!allows(prepare + " && grep -q lo /proc/net/if_inet6"))
    GTEST_SKIP() << "no namespaces here, or no IPv6";
  Command doctor(in_sandbox(prepare, "exec $1 doctor"));
  EXPECT_EQ(doctor.finish(), 0) << doctor.out() << doctor.err();
}

TEST_F(Sandbox, ALoopbackThatIsDownIsAnErrorAtOnce) {
  if (!allows("true")) GTEST_SKIP() << "no namespaces here";
  const auto began = std::chrono::steady_clock::now();
  for (const char* line : {"exec $1 run -n 2 -- true",
                           "MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 RANK=1 WORLD_SIZE=2 exec $1 doctor"}) {
    Command command(in_sandbox("true", line));
    command.finish();
    EXPECT_NE(command.err().find("ip link set lo up"), std::string::npos) << line << command.err();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

}  // namespace
}  // namespace kolo::test
