// HostMark: the ranks of a network namespace have one name, whatever the kernel tells of it.
#include "transport/host_mark.hpp"
#include "transport/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <set>
#include <vector>

#include "base/deadline.hpp"
#include "net/random.hpp"
#include "support/forbid.hpp"

namespace kolo::testing {
namespace {

using transport::HostMark;

const std::string kJob = "host mark test " + net::random_hex(8);

/// The exit code of a child process that runs `body`; `kNotAllowed` if `prepare` fails there.
constexpr int kNotAllowed = 77;
int in_child(const std::function<bool()>& prepare, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(!prepare() ? kNotAllowed : body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(HostMark, RanksOfOneHostFindTheFirst) {
  constexpr int kRanks = 40;
  std::vector<std::future<HostMark>> coming;
  for (int rank = 0; rank < kRanks; ++rank) {
    coming.push_back(std::async(std::launch::async, [rank] { return HostMark(kJob, rank, kRanks); }));
  }
  std::vector<HostMark> marks;
  for (auto& one : coming) marks.push_back(one.get());
  std::set<std::string> names;
  for (const HostMark& mark : marks) names.insert(mark.name());
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(HostMark(kJob + " and another", 3, 4).name(), "3");
}

// As on two machines that were restored from one snapshot: boot id and user are the same.
TEST(HostMark, AnotherNetworkNamespaceIsAnotherHost) {
  const HostMark here(kJob, 0, 2);
  const auto leave = [] { return ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; };
  const int code = in_child(leave, [] { return HostMark(kJob, 1, 2).name() == "1"; });
  if (code == kNotAllowed) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(here.name(), "0");
  EXPECT_EQ(HostMark(kJob, 1, 2).name(), "0");
}

TEST(HostMark, AFirstRankThatCannotBeReachedIsNotWaitedForLong) {
  const HostMark first(kJob, 9, 10);
  const auto begin = Clock::now();
  EXPECT_EQ(HostMark(kJob, 0, 2).name(), "0");  // with two ranks it does not look for rank 9
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST(HostMark, WithoutUnixSocketsTheKernelsWordCounts) {
  const auto forbid_sockets = [] { return forbid(SYS_socket); };
  const int code = in_child(forbid_sockets, [] {
    const std::string told = transport::boot_id() + "-" + transport::namespace_of("net");
    return HostMark(kJob, 0, 2).name() == told && HostMark(kJob, 1, 2).name() == told;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace kolo::testing
