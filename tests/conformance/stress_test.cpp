// Several threads of every rank on several communicators at once: hand-over between drivers, lost wake-ups,
// operations that outlive their communicator, splits that cross each other, aborts from everywhere.
#include <atomic>
#include <random>
#include <thread>

#include "support/cluster.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

class StressOver : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Conformance, StressOver, kTransports, kTransportNames);

void check(const std::vector<float>& data, float expected) {
  for (const float value : data) {
    if (value != expected) throw std::runtime_error("wrong sum " + std::to_string(value));
  }
}

TEST_P(StressOver, ThreadsOfOneRankOnCommunicatorsOfTheirOwn) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    std::vector<Communicator> own;
    for (int t = 0; t < 3; ++t) own.push_back(c.split(0, c.rank()));
    in_threads(3, [&](int t) {
      Communicator& mine = own[static_cast<std::size_t>(t)];
      std::mt19937 random(static_cast<unsigned>(t));                   // the same calls on every rank
      std::mt19937 pauses(static_cast<unsigned>(t * 100 + c.rank()));  // at other times
      for (int round = 0; round < 60; ++round) {
        const std::size_t count = round % 10 == 0 ? 60'000 : 1 + random() % 5000;
        std::vector<std::vector<float>> data(4, std::vector<float>(count, 1.0f));
        std::vector<Work> works;
        for (auto& one : data) works.push_back(mine.all_reduce_async(one));
        if (pauses() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(pauses() % 2000));
        while (!works[0].wait(std::chrono::microseconds(pauses() % 300))) std::this_thread::yield();
        for (const int w : {2, 1, 3}) works[static_cast<std::size_t>(w)].wait();
        for (const auto& one : data) check(one, 3.0f);
        if (round % 7 == 0) mine.barrier();
      }
    });
  });
}

TEST_P(StressOver, NobodyWaitsAndEverythingFinishes) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> data(30'000, 1.0f);
      const Work work = c.all_reduce_async(data);
      while (!work.done()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      check(data, 3.0f);
    }
    c.barrier();
  });
}

TEST_P(StressOver, SplitsThatCrossEachOther) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    Communicator parents[2] = {c.split(0), c.split(0)};
    in_threads(2, [&](int t) {
      for (int round = 0; round < 25; ++round) {
        // The first thread is ahead on one rank, the second thread on the other rank.
        if (t == c.rank()) std::this_thread::sleep_for(std::chrono::microseconds(300));
        Communicator made = parents[t].split(0);
        std::vector<float> data(static_cast<std::size_t>(100 + t), static_cast<float>(1 + t));
        made.all_reduce(data);
        check(data, static_cast<float>(2 + 2 * t));
      }
    });
  });
}

TEST_P(StressOver, AWaitOutlivesTheCommunicator) {
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> data(50'000, 1.0f);
    if (c.rank() == 1) std::this_thread::sleep_for(milliseconds(150));
    const Work work = c.all_reduce_async(data);
    std::atomic<bool> begun{false};
    std::thread waiter([&] {
      begun = true;
      work.wait();
    });
    while (!begun) std::this_thread::yield();
    if (c.rank() == 0) std::this_thread::sleep_for(milliseconds(50));
    if (c.rank() == 0) c = Communicator();  // the wait keeps the links alive
    waiter.join();
    check(data, 2.0f);
    if (c.valid()) c = Communicator();
    if (!work.done()) throw std::runtime_error("not done");
  });
  EXPECT_TRUE(outcome.all_ok()) << outcome.describe();
}

TEST_P(StressOver, AbortsFromEverywhereEndEveryThread) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Outcome outcome = run_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
      std::vector<Communicator> own;
      for (int t = 0; t < 3; ++t) own.push_back(c.split(0, c.rank()));
      std::atomic<int> ended{0};
      in_threads(3, [&](int t) {
        std::vector<float> data(20'000, 1.0f);
        try {
          for (int round = 0; round < 1000; ++round) {
            const bool disagrees = round == 20 + 5 * c.rank() + t + repeat;
            own[static_cast<std::size_t>(t)].all_reduce(data, disagrees ? ReduceOp::max : ReduceOp::sum);
          }
        } catch (const MismatchError&) {
          ++ended;
        }
      });
      if (ended != 3) throw std::runtime_error("a thread went on");
      try {
        (void)own[0].split(0);
      } catch (const MismatchError&) {
        return;
      }
      throw std::runtime_error("split after the failure");
    });
    EXPECT_TRUE(outcome.all_ok()) << outcome.describe();
  }
}

TEST_P(StressOver, AShortTimeoutDoesNotCallAnIdleRankSilent) {
  const Outcome outcome =
      run_ranks({.size = 2, .transport = GetParam(), .timeout = milliseconds(400)}, [](Communicator& c) {
        std::vector<float> data(10);
        if (c.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(320));  // the progress thread has just taken over
          c.barrier();
          std::this_thread::sleep_for(milliseconds(1500));
          return;
        }
        c.barrier();
        c.all_reduce(data);
      });
  EXPECT_NE(outcome.errors[0].find("has not made this call"), std::string::npos) << outcome.errors[0];
}

}  // namespace
}  // namespace kolo::test
