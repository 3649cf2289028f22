// The job's key: the warning about a key that can be guessed.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/unique_fd.hpp"
#include "multiprocess/processes.hpp"
#include "support/require.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

std::string said_with_key(const std::string& key) {
  const UniqueFd log(memfd_create("log", 0));
  Processes processes({.size = 3,
                       .transports = "tcp",
                       .settings = {{"KOLO_KEY", key}, {"KOLO_LOG", "warn"}},
                       .prepare = [&](int) { dup2(log.get(), STDERR_FILENO); }},
                      [](Communicator& c) { c.barrier(); });
  for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
  std::array<char, 4096> text;
  const ssize_t size = pread(log.get(), text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

TEST(Keys, AShortOneIsWarnedOfByOneRank) {
  const std::string said = said_with_key("x");
  EXPECT_EQ(said.find("the job's key has 1 character,"), said.rfind("the job's key has ")) << said;
  EXPECT_NE(said.find("openssl rand -hex 32"), std::string::npos) << said;
  EXPECT_EQ(said_with_key("0123456789abcdef"), "");
}

TEST(Keys, TheOptionComesBeforeTheEnvironmentAndShrinkKeepsIt) {
  ProcessOptions options{.size = 3, .transports = "tcp"};
  options.key = "the key of this test";
  options.prepare = [](int rank) { ::setenv("KOLO_KEY", ("of rank " + std::to_string(rank)).c_str(), 1); };
  Processes processes(options, [](Communicator& c) {
    if (c.rank() == 1) ::raise(SIGKILL);
    try {
      c.barrier();
    } catch (const PeerLostError&) {
      Communicator rest = c.shrink();
      require(rest.size() == 2 && rest.all_reduce(1) == 2, "a wrong sum");
    }
  });
  for (const RankEnd& end : processes.collect(20s, {1})) EXPECT_EQ(end.code, 0) << end.error;
}

}  // namespace
}  // namespace kolo::test
