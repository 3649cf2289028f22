// Groups whose ranks die and to which newcomers come: regroup() and join().
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/deadline.hpp"
#include "multiprocess/processes.hpp"
#include "support/dying_store.hpp"
#include "support/require.hpp"
#include "support/sums.hpp"
#include "support/temporary_folder.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// One step of a training loop, after which newcomers come in if some wait. Whether a rank wants to end.
bool step(Communicator& c, bool is_over = false) {
  std::vector<int> flags{c.has_newcomers(), is_over};
  c.all_reduce(flags, ReduceOp::max);
  std::this_thread::sleep_for(1ms);
  if (flags[0] == 0) return flags[1] != 0;
  const auto begin = Clock::now();
  c = c.regroup();
  if (c.rank() == 0) {
    std::cerr << c.size() << " ranks after "
              << std::chrono::duration<double, std::milli>(Clock::now() - begin).count() << " ms\n";
  }
  return false;
}

Communicator grow(Communicator c, int size) {
  while (c.size() < size) step(c);
  require(c.size() == size, "too many have come");
  return c;
}

/// `dies`: this rank, after some sums.
void sum_until_death(Communicator& c, bool dies = false) {
  std::vector<float> data(1000);
  try {
    for (int i = 0;; ++i) {
      c.all_reduce(data);
      if (dies && i == 50) ::raise(SIGKILL);
    }
  } catch (const PeerLostError&) {
  }
}

/// A signal handler: shuts all connections of this process down, as a middlebox does.
void cut_links(int) {
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.ss_family != AF_UNIX)
      shutdown(descriptor, SHUT_RDWR);
  }
}

ProcessOptions with_cuts(int size) {
  return {.size = size, .transports = "tcp", .settings = {{"KOLO_HEARTBEAT", "1.2"}}, .prepare = [](int) {
            std::signal(SIGUSR1, cut_links);
          }};
}

class Regroup : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect_all_fine(Processes& processes, const std::vector<int>& dead) {
    for (const RankEnd& end : processes.collect(30s, dead)) EXPECT_EQ(end.code, 0) << end.error;
  }
};

TEST_P(Regroup, NewcomersComeIn) {
  for (const int old_size : {2, 4}) {
    for (const int newcomers : {1, 3}) {
      const int size = old_size + newcomers;
      Processes processes({.size = size, .transports = GetParam(), .newcomers = newcomers},
                          [=](Communicator& c) {
                            const int before = c.rank();
                            const bool is_old = c.size() == old_size;
                            Communicator all = grow(c, size);
                            require(!is_old || all.rank() == before, "an old rank has another number");
                            expect_it_works(all);
                            require(all.shrink().size() == size, "a rank is lost");
                          });
      expect_all_fine(processes, {});
    }
  }
}

TEST_P(Regroup, SurvivorsGoOnWithoutNewcomers) {
  for (const int victim : {0, 2}) {
    Processes processes({.size = 4, .transports = GetParam()}, [=](Communicator& c) {
      sum_until_death(c);
      Communicator next = c.regroup();
      require(next.size() == 3, "a survivor is missing");
      expect_it_works(next);
      Communicator same = next.regroup();
      require(same.size() == 3 && same.rank() == next.rank(), "the group has changed");
      expect_it_works(same);
    });
    processes.await_ready();
    processes.hurt(victim, SIGKILL);
    expect_all_fine(processes, {victim});
  }
}

// Ranks die before and after newcomers have come, so groups have newcomers that know no group before.
TEST_P(Regroup, WhoeverIsLeftTakesNewcomers) {
  Processes processes({.size = 6, .transports = GetParam(), .newcomers = 3}, [](Communicator& c) {
    Communicator current = grow(c, 6);
    for (int size = 5; size > 0; --size) {
      sum_until_death(current, current.rank() == 0);
      current = current.regroup();
      require(current.size() == size, "not all survivors are there");
      expect_it_works(current);
    }
  });
  int killed = 0;
  for (const RankEnd& end : processes.collect(30s)) {
    if (end.signal == SIGKILL) {
      ++killed;
    } else {
      EXPECT_EQ(end.code, 0) << end.error;
    }
  }
  EXPECT_EQ(killed, 5);
}

// The newcomer's calls of the store: add, set, add, set; wait, get; set; wait, get. It dies in or after
// each of them, and a while after the last one.
TEST_P(Regroup, ANewcomerThatDiesHarmsNobody) {
  constexpr int kCalls = 9;
  for (int at = 1; at <= kCalls + 3; ++at) {
    ProcessOptions options{.size = 4, .transports = GetParam(), .newcomers = 2};
    options.meet_in = [=](int rank, std::shared_ptr<Store> file) -> std::shared_ptr<Store> {
      if (rank != 2) return file;
      if (at > kCalls) {
        std::thread([=] {
          std::this_thread::sleep_for(20ms * (at - kCalls));
          ::raise(SIGKILL);
        }).detach();
        return file;
      }
      return std::make_shared<DyingStore>(std::move(file), at);
    };
    Processes processes(options, [](Communicator& c) {
      Communicator current = c;
      const auto begin = Clock::now();
      for (bool is_over = false; !is_over;) {
        try {
          is_over = step(current, current.size() == 3 && Clock::now() - begin > 1s);
        } catch (const PeerLostError&) {
          current = current.regroup();
        }
        require(Clock::now() - begin < 15s, "the living newcomer does not come in");
      }
      expect_it_works(current);
    });
    for (const RankEnd& end : processes.collect(30s, {2})) EXPECT_EQ(end.code, 0) << at << ": " << end.error;
  }
}

TEST_P(Regroup, StrangersAreRefused) {
  ProcessOptions options{.size = 6, .transports = GetParam(), .newcomers = 4};
  options.adjust = [](int rank, Options& how) {
    how.program = rank == 2 ? "another model" : "this model";
    how.process = rank == 4 ? "slot 1" : rank == 5 ? "slot 5" : "slot " + std::to_string(rank);
    if (rank == 3) how.key = "the key of another job";
  };
  options.prepare = [](int rank) { std::this_thread::sleep_for(300ms * rank); };
  Processes processes(options, [](Communicator& c) {
    const bool is_old = c.size() == 2;
    Communicator all = grow(c, 3);
    expect_it_works(all);
    require(is_old == (all.rank() < 2), "a stranger has come in");
  });
  const std::vector<RankEnd> ends = processes.collect(30s);
  for (const int rank : {0, 1, 5})
    EXPECT_EQ(ends[static_cast<std::size_t>(rank)].code, 0) << ends[static_cast<std::size_t>(rank)].error;
  const auto expect_refused = [&](std::size_t rank, const std::string& why) {
    EXPECT_NE(ends[rank].error.find("MismatchError: the group refuses this newcomer: " + why),
              std::string::npos)
        << ends[rank].error;
  };
  expect_refused(2, "program another model is not program this model");
  expect_refused(3, "the job's key is another");
  expect_refused(4, "process slot 1 is in the group already");
}

// The store ends with rank 0. The next rank 0 serves another one. A newcomer, a thread of the last rank,
// finds it.
TEST_P(Regroup, TheStoreMayDieWithRankZero) {
  const TemporaryFolder folder;
  const auto file = [&](int number) { return make_file_store(folder / ("store" + std::to_string(number))); };
  std::unique_ptr<TcpStoreServer> server;
  const auto serve = [&](int number) {
    server = serve_tcp_store("127.0.0.1", 0, "");
    file(number)->set("port", std::to_string(server->port()));
    return connect_tcp_store("127.0.0.1", server->port(), "", 5s);
  };
  const auto port = [&](int number) { return file(number)->get("port", 20s); };
  ProcessOptions options{.size = 3, .transports = GetParam()};
  options.meet_in = [&](int rank, const std::shared_ptr<Store>&) {
    if (rank == 0) return serve(1);
    return connect_tcp_store("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port(1))), "", 5s);
  };
  Processes processes(options, [&](Communicator& c) {
    const auto live = [&](Communicator current) {
      current = grow(current, 3);
      expect_it_works(current);
    };
    std::thread newcomer;
    if (c.rank() == 2) {
      newcomer = std::thread([&, first = "tcp://127.0.0.1:" + port(1)] {
        const std::string second = "tcp://127.0.0.1:" + port(2);
        live(Communicator::join({first, second}, {.timeout = 20s, .transports = GetParam()}));
      });
    }
    sum_until_death(c);
    live(c.regroup(nullptr, {.serve = [&] { return serve(2); }}));
    if (newcomer.joinable()) newcomer.join();
  });
  processes.await_ready();
  processes.hurt(0, SIGKILL);
  expect_all_fine(processes, {0});
}

// Four ranks are cut in two. Stopped processes stand for hosts that do not answer.
TEST_P(Regroup, TheHalfWithTheLowestRankGoesOn) {
  Processes processes({.size = 4, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.2"}}},
                      [](Communicator& c) {
                        sum_until_death(c);
                        Communicator next = c.regroup();
                        require(next.size() == 2, "not half of the ranks are left");
                        expect_it_works(next);
                      });
  processes.await_ready();
  for (const int rank : {2, 3}) processes.hurt(rank, SIGSTOP);
  expect_all_fine(processes, {2, 3});
  for (const int rank : {2, 3}) processes.hurt(rank, SIGCONT);
  for (const int rank : {2, 3}) {
    const RankEnd end = processes.collect_one(rank, 20s);
    EXPECT_EQ(end.code, 1) << "two groups";
  }
}

TEST_P(Regroup, TheOtherHalfEnds) {
  Processes processes({.size = 4, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.2"}}},
                      [](Communicator& c) {
                        sum_until_death(c);
                        (void)c.regroup();
                      });
  processes.await_ready();
  for (const int rank : {0, 1}) processes.hurt(rank, SIGSTOP);
  for (const int rank : {2, 3}) {
    const RankEnd end = processes.collect_one(rank, 20s);
    EXPECT_NE(end.error.find("of 4 ranks are left, and 2 may live"), std::string::npos) << end.error;
  }
}

// Ranks whose end was seen do not count, and neither do those that a launcher reports.
TEST_P(Regroup, TheDeadDoNotCount) {
  for (const bool is_reported : {false, true}) {
    Processes processes({.size = 5, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.2"}}},
                        [=](Communicator& c) {
                          sum_until_death(c);
                          RegroupOptions options;
                          if (is_reported) options.ended = {0, 1};
                          Communicator next = c.regroup(nullptr, options);
                          require(next.size() == 2, "not two are left");
                          expect_it_works(next);
                        });
    processes.await_ready();
    processes.hurt(2, SIGSTOP);
    for (const int rank : {0, 1}) processes.hurt(rank, is_reported ? SIGSTOP : SIGKILL);
    for (const int rank : {3, 4}) {
      const RankEnd end = processes.collect_one(rank, 20s);
      EXPECT_EQ(end.code, 0) << end.error;
    }
  }
}

TEST_P(Regroup, FewerThanTheLeastEnd) {
  Processes processes({.size = 3, .transports = GetParam()}, [](Communicator& c) {
    sum_until_death(c);
    (void)c.regroup(nullptr, {.least = 3});
  });
  processes.await_ready();
  processes.hurt(1, SIGKILL);
  for (const RankEnd& end : processes.collect(20s, {1})) {
    EXPECT_NE(end.error.find("ranks are left, and at least 3 must be there"), std::string::npos) << end.error;
  }
}

// Links end and no process does: all go on together, over the origin's links and over the last group's.
TEST(CutLinks, AreMadeAnew) {
  constexpr int kTimes = 3;
  for (const int size : {2, 3}) {
    Processes processes(with_cuts(size), [=](Communicator& c) {
      Communicator current = c;
      for (int time = 0; time < kTimes; ++time) {
        std::thread hurt([&] {
          std::this_thread::sleep_for(100ms);
          if (current.rank() + 1 < size) ::kill(::getpid(), SIGUSR1);
        });
        sum_until_death(current);
        hurt.join();
        current = current.regroup();
        require(current.size() == size, "a living rank is left out");
        expect_it_works(current);
      }
      require(current.shrink().size() == size, "shrink() leaves a living rank out");
    });
    for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
  }
}

// A rank that is cut off from a living one, and cannot reach it, has no quorum without it.
TEST(CutLinks, AreNoEnds) {
  Processes processes(with_cuts(2), [](Communicator& c) {
    sum_until_death(c);
    Communicator next = c.regroup();
    require(next.size() == 1, "not one is left");
  });
  processes.await_ready();
  processes.hurt(0, SIGSTOP);
  processes.hurt(1, SIGUSR1);
  const RankEnd end = processes.collect_one(1, 20s);
  EXPECT_NE(end.error.find("1 of 2 ranks are left, and 1 may live"), std::string::npos) << end.error;
  processes.hurt(0, SIGCONT);
  EXPECT_EQ(processes.collect_one(0, 20s).code, 0);
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Regroup, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
