// regroup() and join() between threads, over every transport.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "kolo/kolo.hpp"
#include "support/sums.hpp"
#include "support/transports.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class RegroupOver : public ::testing::TestWithParam<const char*> {
 protected:
  Options options(std::chrono::nanoseconds timeout = 20s) const {
    return {.timeout = timeout, .transports = GetParam()};
  }
  /// Runs each in a thread of its own.
  template <typename Body>
  void run(int threads, Body body) {
    const Watchdog watchdog(60s);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        try {
          body(i);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "thread " << i << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  }
  Communicator create(int rank, int size) const {
    return Communicator::create(store_, rank, size, options());
  }
  static void await_newcomers(Communicator& c) {
    while (c.all_reduce(int{c.has_newcomers()}, ReduceOp::max) == 0) std::this_thread::sleep_for(1ms);
  }

  const std::shared_ptr<Store> store_ = make_memory_store();
};

TEST_P(RegroupOver, OneComesAndOneLeavesAgainAndAgain) {
  constexpr int kTimes = 10;
  run(2 + kTimes, [&](int i) {
    if (i >= 2) {
      Communicator c = Communicator::join(store_, options(60s));
      expect_it_works(c);
      return;  // leaves
    }
    Communicator c = create(i, 2);
    for (int left = kTimes; left > 0;) {
      await_newcomers(c);
      c = c.regroup();
      left -= c.size() - 2;
      expect_it_works(c);
      c = c.regroup();  // the newcomers have left, or do so now
      while (c.size() > 2) c = c.regroup();
      expect_it_works(c);
    }
  });
}

TEST_P(RegroupOver, NoMoreComeThanMayAndTheOthersWaitOn) {
  run(4, [&](int i) {
    if (i >= 2) {
      Communicator c = Communicator::join(store_, options());
      while (c.size() < 4) {
        await_newcomers(c);
        c = c.regroup();
      }
      expect_it_works(c);
      return;
    }
    Communicator c = create(i, 2);
    for (const int most : {3, 4}) {
      await_newcomers(c);
      c = c.regroup(nullptr, {.most = most});
      while (c.size() < most) {
        await_newcomers(c);
        c = c.regroup(nullptr, {.most = most});
      }
      EXPECT_EQ(c.size(), most);
    }
    expect_it_works(c);
  });
}

TEST_P(RegroupOver, TheLeastMayComeWithNewcomers) {
  run(3, [&](int i) {
    if (i == 2) {
      Communicator c = Communicator::join(store_, options());
      EXPECT_EQ(c.rank(), 2);
      return expect_it_works(c);
    }
    Communicator c = create(i, 2);
    await_newcomers(c);
    c = c.regroup(nullptr, {.least = 3});
    expect_it_works(c);
    EXPECT_EQ(c.rank(), i);
  });
  run(2, [&](int i) {
    Communicator c = create(i, 2);
    EXPECT_THROW((void)c.regroup(nullptr, {.least = 3}), QuorumError);
    EXPECT_THROW((void)c.regroup(), PeerLostError);
  });
}

TEST_P(RegroupOver, ANewcomerWithoutAGroupEnds) {
  const Watchdog watchdog(60s);
  try {
    (void)Communicator::join(store_, options(100ms));
    FAIL() << "there is no group";
  } catch (const RendezvousError& error) {
    EXPECT_NE(
        std::string(error.what()).find("no group has taken this newcomer within 0.1 s (waiting at memory)"),
        std::string::npos)
        << error.what();
  }
  EXPECT_THROW((void)Communicator::join({"tcp://127.0.0.1:1"}, options(100ms)), RendezvousError);
  EXPECT_THROW((void)Communicator::join(std::vector<std::string>{}, options(100ms)), RendezvousError);
  EXPECT_THROW((void)Communicator::join({"elsewhere"}, options(100ms)), InvalidArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Conformance, RegroupOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
