// Ranks that cannot start together, as processes: the store ends with rank 0's process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <thread>

#include "multiprocess/processes.hpp"
#include "net/socket.hpp"
#include "support/require.hpp"
#include "support/temporary_folder.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

std::string free_port() {
  const auto listener = net::listen_on(net::resolve("127.0.0.1", 0).value().front());
  return std::to_string(net::local_port(listener.value().get()));
}

ProcessOptions job(int size) {
  return {.size = size,
          .transports = "shm,tcp",
          .timeout = 60s,
          .settings = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}},
          .by_environment = true};
}

/// A limit far below the ranks' own timeout.
void expect_all_told(const ProcessOptions& options, const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  Processes processes(options, [](Communicator&) {});
  for (const RankEnd& end : processes.collect(20s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(std::regex_search(end.error, std::regex(what))) << end.error;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
}

void come_late() {
  std::this_thread::sleep_for(1s);
}

TEST(Meeting, NothingOfKolosTakesTheNumbersOfClosedStreams) {
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    ProcessOptions options = job(3);
    options.transports = transports;
    options.settings["KOLO_LOG"] = "trace";
    options.prepare = [](int) { ::close_range(0, 2, 0); };
    Processes processes(options, [](Communicator& c) {
      std::vector<int> data(100'000, c.rank());
      c.all_reduce(data);
      require(std::ranges::count(data, 3) == 100'000, "wrong sum");
      for (const int fd : {0, 1, 2}) require(::fcntl(fd, F_GETFD) == -1, "descriptor " + std::to_string(fd));
    });
    for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
  }
}

TEST(Meeting, WhatAllRanksHaveWrongEndsAllAtOnce) {
  const std::pair<const char*, const char*> settings[] = {{"KOLO_TRANSPORTS", "pigeon"},
                                                          {"KOLO_ALGORITHM", "magic"},
                                                          {"KOLO_INTERFACE", "nowhere0"},
                                                          {"KOLO_TIMELINE", "/proc/nowhere"}};
  for (const auto& [name, value] : settings) {
    ProcessOptions options = job(3);
    options.transports = "";
    options.settings[name] = value;
    options.prepare = [](int rank) {
      if (rank != 0) come_late();
    };
    expect_all_told(options, value);
  }
}

TEST(Meeting, WhatOneRankHasWrongIsToldToThoseThatComeLater) {
  for (const int bad : {0, 1}) {
    ProcessOptions options = job(3);
    options.transports = "";
    options.prepare = [bad](int rank) {
      if (rank == bad) {
        ::setenv("KOLO_TRANSPORTS", "pigeon", 1);
      } else {
        come_late();
      }
    };
    expect_all_told(options, "KOLO_TRANSPORTS=pigeon: there is no transport 'pigeon'");
  }
}

TEST(Meeting, AJobThatIsTooLargeIsRefusedAndTheLargestKeepsItsTimeout) {
  for (const char* size : {"2147483647", "65537", "65536"}) {
    ProcessOptions options = job(1);
    options.timeout = 5s;
    options.prepare = [size](int) { ::setenv("WORLD_SIZE", size, 1); };
    const bool is_refused = std::string(size) != "65536";
    expect_all_told(
        options, is_refused ? "WORLD_SIZE=" + std::string(size) + " must be at most 65536"
                            : "ranks 1, 2, .*16 and 65519 more of 65536 did not come: timed out after 5 s");
  }
}

constexpr const char* kBoth = "first process [0-9]+ on [^ ]+, then process [0-9]+ on ";

TEST(Meeting, TwoProcessesWithOneRankAreNamedToAll) {
  for (const char* twice : {"0", "1"}) {
    ProcessOptions options = job(3);
    options.prepare = [twice](int rank) {
      if (rank == 2) ::setenv("RANK", twice, 1);
    };
    expect_all_told(options, std::string("as rank ") + twice + " of 3: " + kBoth);
  }
}

TEST(Meeting, TwoProcessesWithOneRankMeetInAFileToo) {
  const TemporaryFolder folder;
  ProcessOptions options = job(3);
  options.settings = {{"KOLO_STORE", "file://" + folder / "store"}};
  options.prepare = [](int rank) {
    if (rank == 1) ::setenv("RANK", "0", 1);
  };
  expect_all_told(options, std::string("as rank 0 of 3: ") + kBoth);
}

}  // namespace
}  // namespace kolo::test
