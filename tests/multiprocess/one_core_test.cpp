// Many ranks on a core, of which few sum for all: if one of those stops or dies, all other ranks name it.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <regex>
#include <thread>

#include "multiprocess/processes.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 9;
constexpr int kSums = 0;  // the one rank that sums for all, if kRanks share a core
const CallOptions kDirect{.algorithm = "direct"};

void use_first_core(int /*rank*/) {
  cpu_set_t allowed;
  cpu_set_t first;
  sched_getaffinity(0, sizeof allowed, &allowed);
  CPU_ZERO(&first);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  CPU_SET(core, &first);
  sched_setaffinity(0, sizeof first, &first);
}

void await_stop(std::int64_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  for (std::string word; word != "T"; std::this_thread::sleep_for(1ms)) {
    std::ifstream(path) >> word >> word >> word;  // number, name, state
  }
}

void expect_named(const std::vector<RankEnd>& ends, int victim) {
  const std::string words = "lost rank " + std::to_string(victim);
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.code, 1);
    EXPECT_EQ(end.blamed, victim) << end.error;
    EXPECT_NE(end.error.find(words), std::string::npos) << end.error;
  }
}

// It has made its call, as all other ranks have, and none of them does the sum for it.
TEST(RanksOnOneCore, ARankThatIsStoppedBeforeItSumsForAllIsNamed) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    Processes processes(
        {.size = kRanks, .timeout = 300s, .settings = {{"KOLO_HEARTBEAT", "1"}}, .prepare = use_first_core},
        [&](Communicator& c) {
          std::vector<float> data(count);
          std::int64_t stopped = ::getpid();
          const Buffer number(&stopped, 1, DType::int64);
          c.all_reduce(data, ReduceOp::sum, kDirect);
          if (c.rank() == kSums) {
            const Work work = c.all_reduce_async(data, ReduceOp::sum, kDirect);
            for (int peer = 1; peer < kRanks; ++peer) c.send(number, peer);
            ::raise(SIGSTOP);
          }
          c.recv(number, kSums);
          await_stop(stopped);
          c.all_reduce(data, ReduceOp::sum, kDirect);
        });
    expect_named(processes.collect(30s, {kSums}), kSums);
  }
}

TEST(RanksOnOneCore, ARankThatIsKilledIsNamedWhetherItSumsOrNot) {
  for (const int victim : {kSums, 4}) {
    for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
      Processes processes({.size = kRanks, .prepare = use_first_core}, [&](Communicator& c) {
        std::vector<float> data(count);
        while (c.size() > 0) c.all_reduce(data, ReduceOp::sum, kDirect);
      });
      processes.await_ready();
      processes.hurt(victim, SIGKILL);
      expect_named(processes.collect(15s, {victim}), victim);
    }
  }
}

// Otherwise a rank takes its peers' turns for another program's, and sleeps where it had better yield.
TEST(RanksOnOneCore, EachRankKnowsItWhateverTransportCarriesItsData) {
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::tmpfile(), &std::fclose);
    const auto prepare = [&](int rank) {
      use_first_core(rank);
      if (rank == 1) ::dup2(::fileno(log.get()), STDERR_FILENO);
    };
    Processes processes(
        {.size = 2, .transports = transports, .settings = {{"KOLO_LOG", "debug"}}, .prepare = prepare},
        [](Communicator& c) { c.barrier(); });
    for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
    std::string text(1 << 16, '\0');
    text.resize(static_cast<std::size_t>(::pread(::fileno(log.get()), text.data(), text.size(), 0)));
    EXPECT_TRUE(std::regex_search(text, std::regex("rank 1: cores [0-9]+, shared")))
        << transports << ": " << text;
  }
}

}  // namespace
}  // namespace kolo::test
