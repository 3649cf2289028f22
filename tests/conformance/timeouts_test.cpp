// Timeouts of communicators and of calls: each means what it says.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "kolo/call_batch.hpp"
#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = seconds(60);     // of the communicators
constexpr auto kBusyMachine = seconds(10);  // what a busy machine may add

class TimeoutsOver : public ::testing::TestWithParam<const char*> {};

/// A call of rank 0 that no rank joins ends after `timeout`, neither before nor much later, and the error
/// says so: on each rank, and with these words.
void expect_timeout(const char* transport, milliseconds timeout, const std::vector<std::string>& said,
                    const std::function<void(Communicator&)>& call) {
  const Outcome outcome =
      run_ranks({.size = 3, .transport = transport, .timeout = kPatience}, [&](Communicator& c) {
        c.barrier();
        if (c.rank() > 0) return c.recv_any_async(Buffer(), 99).wait();  // until it is told
        const auto begin = Clock::now();
        try {
          call(c);
        } catch (const TimeoutError& error) {
          const auto took = Clock::now() - begin;
          require(took >= timeout, std::string("too early: ") + error.what());
          require(took < timeout + kBusyMachine, std::string("too late: ") + error.what());
          require(error.context().peer > 0, std::string("blames no rank: ") + error.what());
          throw;
        }
      });
  const std::string time = "timed out after 0." + std::to_string(timeout.count() / 100) + " s";
  for (const std::string& error : outcome.errors) {
    EXPECT_NE(error.find(time), std::string::npos) << error;
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  }
  for (const std::string& part : said)
    EXPECT_NE(outcome.errors[0].find(part), std::string::npos) << part << " is not in " << outcome.errors[0];
}

TEST_P(TimeoutsOver, OfACallMeanWhatTheySay) {
  for (const milliseconds timeout : {milliseconds(100), milliseconds(400)}) {
    const CallOptions options{.timeout = timeout};
    std::vector<float> data(1000), all(3000);
    expect_timeout(GetParam(), timeout, {"has not made this", "all_reduce(sum of 1000 float32"},
                   [&](Communicator& c) { c.all_reduce(data, ReduceOp::sum, options); });
    expect_timeout(GetParam(), timeout, {"all_gather(3000 float32"},
                   [&](Communicator& c) { c.all_gather_async(data, all, {}, options).wait(); });
    expect_timeout(GetParam(), timeout, {"recv(1000 float32) from rank 1 with tag 7"},
                   [&](Communicator& c) { c.recv(data, 1, 7, timeout); });
    expect_timeout(GetParam(), timeout, {"from rank 1 with tag 7"}, [&](Communicator& c) {
      CallBatch batch(c);
      batch.recv(data, 1, 7, timeout);
      batch.run();
    });
    expect_timeout(GetParam(), timeout, {"to rank 1 with tag 7"}, [&](Communicator& c) {
      const std::vector<float> more(10'000'000);  // no link takes it before its receive
      c.send(more, 1, 7, timeout);
    });
    expect_timeout(GetParam(), timeout, {"barrier"}, [&](Communicator& c) {
      // No thread waits: the progress thread looks at the time.
      const Work barrier = c.barrier_async(options);
      std::mutex mutex;
      std::condition_variable called;
      std::unique_lock lock(mutex);
      bool is_called = false;
      barrier.then([&](const Work&) {
        const std::lock_guard guard(mutex);
        is_called = true;
        called.notify_one();
      });
      called.wait(lock, [&] { return is_called; });
      barrier.wait();
    });
  }
}

TEST_P(TimeoutsOver, OfACommunicatorCanBeChanged) {
  std::vector<int> data(100);
  for (const milliseconds timeout : {milliseconds(100), milliseconds(400)}) {
    expect_timeout(GetParam(), timeout, {"recv(100 int32) from rank 1 with tag 7"}, [&](Communicator& c) {
      Communicator copy = c;
      copy.set_timeout(timeout);
      require(c.timeout() == timeout, "a copy has another timeout");
      c.recv(data, 1, 7);
    });
  }
  // That of a call comes before that of its communicator.
  expect_timeout(GetParam(), milliseconds(400), {"all_reduce"}, [&](Communicator& c) {
    c.set_timeout(milliseconds(100));
    c.all_reduce(data, ReduceOp::sum, {.timeout = milliseconds(400)});
  });
}

// A call does not wait for the longer timeout of an older one.
TEST_P(TimeoutsOver, OfSeveralCallsEachCounts) {
  std::vector<int> first(10), second(10);
  expect_timeout(GetParam(), milliseconds(200), {"with tag 2"}, [&](Communicator& c) {
    const Work older = c.recv_async(first, 1, 1);
    c.set_timeout(milliseconds(200));
    c.recv(second, 1, 2);
  });
}

TEST_P(TimeoutsOver, NeedNotBeTheSameOnAllRanks) {
  // Ranks 0 and 1 wait for rank 2, with very different patience. Rank 2 waits for itself.
  const Outcome outcome =
      run_ranks({.size = 3, .transport = GetParam(), .timeout = kPatience}, [](Communicator& c) {
        std::vector<int> data(10);
        c.set_timeout(c.rank() == 0 ? nanoseconds(milliseconds(300)) : nanoseconds(kPatience));
        c.barrier();
        const auto begin = Clock::now();
        try {
          if (c.rank() < 2) c.all_reduce(data);
          c.recv(data, 2, 1);
        } catch (const TimeoutError&) {
          require(Clock::now() - begin < kBusyMachine, "only the end of the longer time ended it");
          throw;
        }
      });
  for (const std::string& error : outcome.errors) {
    EXPECT_NE(error.find("timed out after 0.3 s without progress: rank 2"), std::string::npos) << error;
    EXPECT_NE(error.find("has not made this"), std::string::npos) << error;
  }
}

TEST_P(TimeoutsOver, ThatMakeNoSenseAreRefused) {
  const auto refused = [](const char* said, const std::function<void()>& call) {
    try {
      call();
    } catch (const InvalidArgumentError& error) {
      require(std::string(error.what()).find(said) != std::string::npos, error.what());
      return;
    }
    throw std::runtime_error(std::string("not refused: ") + said);
  };
  expect_ranks({.size = 2, .transport = GetParam(), .timeout = kPatience}, [&](Communicator& c) {
    refused("set_timeout: 0 ns", [&] { c.set_timeout(seconds(0)); });
    refused("set_timeout: -1000000000 ns", [&] { c.set_timeout(seconds(-1)); });
    std::vector<int> data(10, 1);
    if (c.rank() == 0) {  // without a number of its own
      refused("all_reduce: the timeout is negative",
              [&] { c.all_reduce(data, ReduceOp::sum, {.timeout = nanoseconds(-1)}); });
    }
    refused(": recv: the timeout is negative", [&] { c.recv(data, 1 - c.rank(), 7, nanoseconds(-1)); });
    c.all_reduce(data, ReduceOp::sum, {.timeout = nanoseconds(0)});
    require(data[0] == 2 && c.timeout() == kPatience, "a refused timeout has changed something");
    Communicator before = c.split(0);
    c.set_timeout(std::chrono::hours(1'000'000));
    Communicator after = c.split(0);
    require(before.timeout() == kPatience && after.timeout() == c.timeout(), "split() made another timeout");
    after.barrier();
  });
  refused("Options::timeout is negative", [&] {
    const auto none =
        Communicator::create(make_memory_store(), 0, 1, {.timeout = seconds(-1), .transports = GetParam()});
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, TimeoutsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
