// After a rank is lost, the survivors call shrink(), agree on their members, and continue.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/deadline.hpp"
#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/sums.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// Kills this rank after all ranks have connected and returned from the calls that this rank has made too.
void die(Communicator& c) {
  c.barrier();
  std::this_thread::sleep_for(100ms);
  ::raise(SIGKILL);
}

/// Sums in place until a rank is lost, perhaps already in the barrier.
void sum_until_failure(Communicator& c, std::size_t count) {
  std::vector<float> data(count);
  try {
    c.barrier();
    for (;;) c.all_reduce(data);
  } catch (const PeerLostError&) {
  }
}

class Shrink : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect_all_fine(Processes& processes, const std::vector<int>& dead) {
    for (const RankEnd& end : processes.collect(30s, dead)) EXPECT_EQ(end.code, 0) << end.error;
  }
};

TEST_P(Shrink, TheSurvivorsOfAKilledRankGoOn) {
  for (const int victim : {0, 2, 4}) {
    Processes processes({.size = 5, .transports = GetParam()}, [&](Communicator& c) {
      const int before = c.rank();
      sum_until_failure(c, 100'000);
      Communicator smaller = c.shrink();
      require(smaller.size() == 4, "not everybody who is left is in");
      require(smaller.rank() == before - (before > victim ? 1 : 0), "the ranks' order has changed");
      expect_it_works(smaller);
      const Work barrier = smaller.barrier_async();
      require(barrier.algorithm() == c.barrier_async().algorithm(), "another barrier than before");
      barrier.wait();  // a rank that leaves during the barrier would end the calls of its peers
    });
    processes.await_ready();
    std::this_thread::sleep_for(100ms);
    processes.hurt(victim, SIGKILL);
    expect_all_fine(processes, {victim});
  }
}

TEST_P(Shrink, AgainAndAgainUntilOneIsLeft) {
  constexpr int kSize = 4;
  Processes processes({.size = kSize, .transports = GetParam()}, [&](Communicator& c) {
    Communicator current = c;
    const int me = c.rank();
    for (int size = kSize; size > 1; --size) {
      if (me == size - 1) die(current);
      sum_until_failure(current, 5000);
      current = current.shrink();
      require(current.size() == size - 1 && current.rank() == me, "who is left is not who should be");
      expect_it_works(current);
    }
  });
  expect_all_fine(processes, {1, 2, 3});
}

// A second rank dies while the survivors agree, connect, or have just connected: at a different time in each
// run.
TEST_P(Shrink, OneMoreDiesMeanwhile) {
  for (int delay_us = 0; delay_us <= 20'000; delay_us += 2'500) {
    Processes processes({.size = 5, .transports = GetParam()}, [&](Communicator& c) {
      const int me = c.rank();
      if (me == 1) die(c);
      if (me == 3) {
        std::thread([delay_us] {
          std::this_thread::sleep_for(100ms + std::chrono::microseconds(delay_us));
          ::raise(SIGKILL);
        }).detach();
      }
      sum_until_failure(c, 1000);
      const auto begin = Clock::now();
      Communicator current = c.shrink();
      if (current.size() > 3) {
        sum_until_failure(current, 1000);
        current = current.shrink();
      }
      // Sometimes only a heartbeat (5 s) shows that the second rank is dead; the timeout is 20 s.
      require(Clock::now() - begin < 12s, "somebody waited for the dead");
      require(current.size() == 3, "not three are left but " + std::to_string(current.size()));
      expect_it_works(current);
    });
    expect_all_fine(processes, {1, 3});
  }
}

TEST_P(Shrink, PartsShrinkByThemselves) {
  Processes processes({.size = 6, .transports = GetParam()}, [&](Communicator& c) {
    Communicator part = c.split(c.rank() % 2);
    const bool is_hurt = c.rank() % 2 == 1;
    if (c.rank() == 3) die(part);
    sum_until_failure(part, 1000);  // the halves share their links, so the other half fails too
    Communicator next = part.shrink();
    require(next.size() == (is_hurt ? 2 : 3), "the wrong number is left");
    expect_it_works(next);
  });
  expect_all_fine(processes, {3});
}

// A rank that finishes shrink() of its part early sends recovery messages of the whole, while other ranks
// still send those of their part.
TEST_P(Shrink, PartsShrinkAndThenTheWhole) {
  Processes processes({.size = 6, .transports = GetParam()}, [&](Communicator& c) {
    Communicator part = c.split(c.rank() % 2);
    if (c.rank() == 5) die(part);
    sum_until_failure(part, 1000);
    if (c.rank() == 0) std::this_thread::sleep_for(500ms);
    Communicator smaller_part = part.shrink();
    require(smaller_part.size() == (c.rank() % 2 == 0 ? 3 : 2), "the wrong number is left of the part");
    Communicator smaller = c.shrink();
    require(smaller.size() == 5, "the wrong number is left");
    expect_it_works(smaller_part);
    expect_it_works(smaller);
  });
  expect_all_fine(processes, {5});
}

TEST_P(Shrink, NoticesSilenceByItself) {
  Processes processes({.size = 3, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.2"}}},
                      [&](Communicator& c) {
                        if (c.rank() == 1) ::raise(SIGSTOP);
                        const auto begin = std::chrono::steady_clock::now();
                        Communicator next = c.shrink();
                        require(next.size() == 2, "a stopped rank is in");
                        require(std::chrono::steady_clock::now() - begin < 10s,
                                "a stopped rank was waited for until the timeout");
                        expect_it_works(next);
                      });
  expect_all_fine(processes, {1});
}

// A rank that was stopped has neither sent pings nor received answers, so it must not take its peers for
// dead.
TEST_P(Shrink, WhoWasStoppedTakesNobodyForDead) {
  Processes processes({.size = 2, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.5"}}},
                      [&](Communicator& c) {
                        std::vector<float> data(1000);
                        c.all_reduce(data);
                        if (c.rank() == 0) std::this_thread::sleep_for(5s);
                        c.all_reduce(data);
                      });
  processes.await_ready();
  std::this_thread::sleep_for(1s);
  processes.hurt(1, SIGSTOP);
  std::this_thread::sleep_for(2s);
  processes.hurt(1, SIGCONT);
  expect_all_fine(processes, {});
}

// A rank that shrinks long after the failure must see the current state of its peers, not that at the
// failure.
TEST_P(Shrink, LongAfterTheFailure) {
  Processes processes({.size = 4, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1"}}},
                      [&](Communicator& c) {
                        if (c.rank() == 2) ::raise(SIGSTOP);
                        sum_until_failure(c, 1000);
                        std::this_thread::sleep_for(c.rank() == 0 ? 1s : 2s);
                        Communicator next = c.shrink();
                        require(next.size() == 3, "somebody who lives was left out");
                        expect_it_works(next);
                      });
  expect_all_fine(processes, {2});
}

TEST_P(Shrink, NobodyIsLeftOutAfterADisagreement) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<float> data(c.rank() == 1 ? 10 : 20);
    try {
      c.all_reduce(data);
      throw std::runtime_error("ranks that disagree got a result");
    } catch (const MismatchError&) {
    }
    Communicator next = c.shrink();
    require(next.size() == 3 && next.rank() == c.rank(), "somebody was left out");
    expect_it_works(next);
  });
  expect_all_fine(processes, {});
}

TEST_P(Shrink, WhoWasTakenForDeadIsTold) {
  Processes processes({.size = 4, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1.2"}}},
                      [&](Communicator& c) {
                        sum_until_failure(c, 2000);
                        Communicator next = c.shrink();
                        require(next.size() == 3, "the stopped rank is in");
                        expect_it_works(next);
                      });
  processes.await_ready();
  std::this_thread::sleep_for(100ms);
  processes.hurt(2, SIGSTOP);
  expect_all_fine(processes, {2});
  processes.hurt(2, SIGCONT);
  const RankEnd end = processes.collect_one(2, 20s);
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.error.find("PeerLostError"), std::string::npos) << end.error;
}

TEST_P(Shrink, TheInputOfAFailedCallIsWhatItWas) {
  Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<float> in(3'000'000);
    std::vector<float> out(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 1000 + c.rank());
    const std::vector<float> kept = in;
    try {
      for (;;) c.all_reduce(in, out);
    } catch (const PeerLostError&) {
    }
    require(in == kept, "the input of a failed call has changed");
    Communicator smaller = c.shrink();
    smaller.all_reduce(in, out);
    require(in == kept, "the input of a call has changed");
  });
  processes.await_ready();
  std::this_thread::sleep_for(100ms);
  processes.hurt(1, SIGKILL);
  expect_all_fine(processes, {1});
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Shrink, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
