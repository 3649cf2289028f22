// Communicator::abort(): every rank learns at once which rank gave up and why, and all ranks can continue
// together.
#include <barrier>
#include <thread>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::seconds;

class AbortOver : public ::testing::TestWithParam<const char*> {
 protected:
  static ClusterOptions ranks(int size) {
    return {.size = size, .transport = GetParam(), .timeout = seconds(40)};
  }
};

/// Throws unless `call` soon fails with an AbortedError whose text contains all of `said`; returns the rank
/// that it blames.
int require_aborted(const std::vector<std::string>& said, const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    call();
  } catch (const AbortedError& error) {
    const std::string text = error.what();
    for (const std::string& word : said) require(text.find(word) != std::string::npos, "unclear: " + text);
    require(std::chrono::steady_clock::now() - begin < seconds(10), "learnt of it only at the deadline");
    return error.context().peer;
  }
  throw std::runtime_error("no abort was reported");
}

void require_sum(Communicator& c, std::size_t count) {
  std::vector<std::int64_t> data(count, c.rank() + 1);
  c.all_reduce(data);
  const std::int64_t n = c.size();
  for (const std::int64_t value : data) require(value == n * (n + 1) / 2, "a wrong sum after the abort");
}

/// Sums without an end. Rank `giving_up` runs `give_up` after the first sum, when no rank is still in
/// create() or shrink().
void sum(Communicator& c, std::size_t count, int giving_up, const std::function<void()>& give_up) {
  std::vector<float> data(count);
  c.all_reduce(data);
  if (c.rank() == giving_up) give_up();
  for (;;) c.all_reduce(data);
}

TEST_P(AbortOver, EveryRankIsToldWhoAbortedAndWhy) {
  for (const int size : {2, 3, 5}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
      expect_ranks(ranks(size), [&](Communicator& c) {
        const std::vector<std::string> said = {"rank 1 aborted: out of data: call ", "all_reduce(sum of "};
        const auto give_up = [&] { c.abort("out of data"); };
        require(require_aborted(said, [&] { sum(c, count, 1, give_up); }) == 1, "blames another");
        require_aborted({"rank 1 aborted: out of data: call ", "barrier"}, [&] { c.barrier(); });
      });
    }
  }
}

TEST_P(AbortOver, TheRanksOwnOperationsHaveEndedWhenItReturns) {
  expect_ranks(ranks(3), [](Communicator& c) {
    const auto abort = [&] {
      std::vector<std::vector<float>> data(8, std::vector<float>(100'000));
      std::vector<float> message(1000);
      std::vector<Work> works;
      for (auto& values : data) works.push_back(c.all_reduce_async(values));
      works.push_back(c.recv_async(message, 2));
      std::thread other([&] {
        try {
          for (const Work& work : works) work.wait();
        } catch (const AbortedError&) {
        }
      });
      c.abort("enough");
      for (const Work& work : works) require(work.done(), "an operation goes on");
      require_aborted({"enough"}, [&] { works.back().wait(); });
      other.join();
    };
    require_aborted({"rank 0 aborted: enough"}, [&] { sum(c, 100'000, 0, abort); });
  });
}

TEST_P(AbortOver, WhileAnotherThreadOfTheRankSleepsInACall) {
  expect_ranks(ranks(3), [](Communicator& c) {
    const auto recv_in_vain = [&](int peer) {
      std::vector<float> data(10);
      require_aborted({"rank 1 aborted: from elsewhere"}, [&] { c.recv(data, peer); });
    };
    const auto abort = [&] {
      std::thread other([&] { recv_in_vain(0); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // right in any case; mostly asleep by then
      c.abort("from elsewhere");
      other.join();
    };
    require_aborted({"rank 1 aborted"}, [&] { sum(c, 10, 1, abort); });
  });
}

TEST_P(AbortOver, WhatSharesTheLinksEndsToo) {
  expect_ranks(ranks(4), [](Communicator& c) {
    Communicator part = c.split(c.rank() % 2);
    const std::string said = "rank 3 aborted: this half is lost";
    require_aborted({said}, [&] {
      c.barrier();  // no rank is still in split()
      sum(part, 10, c.rank() % 2 == 1 ? 1 : -1, [&] { part.abort("this half is lost"); });
    });
    const int blamed = require_aborted({said}, [&] { part.barrier(); });
    require(blamed == (c.rank() % 2 == 1 ? 1 : -1), "blames another");
    require(require_aborted({}, [&] { c.barrier(); }) == 3, "blames another");
  });
}

TEST_P(AbortOver, AllGoOnTogether) {
  expect_ranks(ranks(4), [](Communicator& c) {
    Communicator current = c;
    for (int round = 0; round < 3; ++round) {
      const std::string name = "round " + std::to_string(round);
      require_aborted({"rank " + std::to_string(round) + " aborted: " + name},
                      [&] { sum(current, 1000, round, [&] { current.abort(name); }); });
      current = current.shrink();
      require(current.size() == 4 && current.rank() == c.rank(), "some rank was left out");
      for (const std::size_t count : {std::size_t{1}, std::size_t{200'000}}) require_sum(current, count);
    }
  });
}

TEST_P(AbortOver, TheFirstFailureCounts) {
  expect_ranks(ranks(3), [](Communicator& c) {
    const auto give_up = [&] { c.abort("both at once"); };
    const int blamed = require_aborted({"aborted: both at once"}, [&] { sum(c, 10, c.rank() % 2, give_up); });
    require(blamed == 0 || blamed == 1, "blames another");
    c.abort("too late");
    require_aborted({"both at once"}, [&] { c.barrier(); });
    require_sum(c = c.shrink(), 10);
  });
  const Outcome outcome = run_ranks(ranks(2), [](Communicator& c) {
    std::vector<int> data(c.rank() == 0 ? 3 : 4);
    try {
      c.all_reduce(data);
    } catch (const MismatchError&) {
      c.abort("after it");
    }
    c.barrier();
  });
  for (const std::string& error : outcome.errors)
    EXPECT_NE(error.find("disagree"), std::string::npos) << error;
}

TEST_P(AbortOver, ALoneRankToo) {
  expect_ranks(ranks(1), [](Communicator& c) {
    c.abort("alone");
    require_aborted({"rank 0 aborted: alone"}, [&] { c.barrier(); });
    require_sum(c = c.shrink(), 10);
  });
}

/// Until the abort is known, which may be before the call is made or within it.
template <typename Call>
void repeat(Call call) {
  for (;;) call();
}

TEST_P(AbortOver, WhileOtherRanksAreStillCreatingTheCommunicator) {
  for (int round = 0; round < 10; ++round) {
    const Outcome outcome = run_ranks(ranks(4), [&](Communicator& c) {
      if (c.rank() == round % 4) c.abort("at once");
      repeat([&] { c.barrier(); });
    });
    const std::string said = "rank " + std::to_string(round % 4) + " aborted: at once: call ";
    for (const std::string& error : outcome.errors) EXPECT_NE(error.find(said), std::string::npos) << error;
  }
}

TEST_P(AbortOver, WhileOtherRanksSplit) {
  for (const int round : {0, 1, 2, 3, 4, 5}) {
    std::barrier together(3);
    expect_ranks(ranks(3), [&](Communicator& c) {
      const auto divide = [&] { round % 2 == 0 ? c.split(c.rank() % 2) : c.subgroup(std::array{0, 1, 2}); };
      together.arrive_and_wait();  // no rank is still in create()
      require_aborted({"rank 1 aborted: no group: call ", "split() or subgroup() number "}, [&] {
        if (c.rank() == 1) {
          for (int i = 0; i < round; ++i) divide();
          c.abort("no group");
        }
        repeat(divide);
      });
    });
  }
}

TEST_P(AbortOver, EndsTheShrinkOfAnotherThread) {
  expect_ranks(ranks(4), [&](Communicator& c) {
    require_aborted({"rank 3 aborted: first"}, [&] { sum(c, 10, 3, [&] { c.abort("first"); }); });
    if (c.rank() == 2) {
      // The other ranks have not come: rank 0 waits for this rank's abort.
      std::thread other([&] {
        const int blamed = require_aborted({"shrink: rank 2 aborted: no more"}, [&] { (void)c.shrink(); });
        require(blamed == 2, "blames another");
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      c.abort("no more");
      other.join();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(c.rank() == 0 ? 200 : 0));
    Communicator rest = c.shrink();
    require(rest.size() == 3, "the rank that gave up is still in");
    require_sum(rest, 1000);
  });
}

TEST_P(AbortOver, WhileRanksDestroyTheirCommunicators) {
  for (int round = 0; round < 10; ++round) {
    const Outcome outcome = run_ranks(ranks(4), [&](Communicator& c) {
      std::vector<float> data(100'000);
      c.all_reduce(data);
      Communicator part = c.split(0);
      const Work work = c.all_reduce_async(data);
      if (c.rank() == round % 4) c.abort("at the end");
      if (c.rank() % 2 == 0) {
        part = Communicator();
        c = Communicator();
        (void)work.wait(seconds(10));  // the abort, the end of this rank, or a sum that was complete before
        return;
      }
      repeat([&] { part.barrier(); });
    });
    for (const int rank : {1, 3}) {
      const std::string& error = outcome.errors[static_cast<std::size_t>(rank)];
      // A rank that has left may be noticed before the abort comes.
      EXPECT_TRUE(error.find("aborted: at the end") != std::string::npos ||
                  error.find("destroyed its communicator") != std::string::npos)
          << error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, AbortOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
