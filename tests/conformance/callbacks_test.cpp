// Work::then(), which calls back without a waiting thread, and wait_all().
#include <atomic>
#include <barrier>
#include <future>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"
#include "support/watchdog.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string text_of(const std::exception_ptr& error) {
  if (error == nullptr) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

/// Counts calls, and lets a thread wait for them.
struct Calls {
  std::counting_semaphore<> made{0};
  std::vector<int> order = {};  ///< written by the thread of the callbacks alone

  std::function<void(const Work&)> number(int i) {
    return [this, i](const Work& work) {
      require(work.done(), "called before the end");
      order.push_back(i);
      made.release();
    };
  }
  void await(int count) {
    for (int i = 0; i < count; ++i) made.acquire();
  }
};

class CallbacksOver : public ::testing::TestWithParam<const char*> {};

TEST_P(CallbacksOver, EachIsCalledOnceInTheOrderOfTheEnds) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{16'384}, std::size_t{700'001}}) {
    expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
      const auto caller = std::this_thread::get_id();
      for (int round = 0; round < 20; ++round) {
        Calls calls;
        std::vector<float> data(count, 1), word(1, static_cast<float>(c.rank()));
        std::promise<void> ended;
        const Work late = c.recv_async(word, (c.rank() + 1) % 3);
        const Work sum = c.all_reduce_async(data);
        late.then(calls.number(3));
        sum.then([&](const Work& work) {
          // As a caller sees it: the result is there, and the outcome is the call's.
          require(work.error() == nullptr && work.algorithm() == sum.algorithm(), "not the Work itself");
          require(data.front() == 3 && data.back() == 3, "called before the sum was there");
          require(std::this_thread::get_id() != caller, "called on the caller's thread");
          calls.number(0)(work);
        });
        sum.then(calls.number(1));
        calls.await(2);
        sum.then(calls.number(2));  // of one that is done
        calls.await(1);
        c.barrier();
        c.send(std::vector<float>{7}, (c.rank() + 2) % 3);
        calls.await(1);
        require(word[0] == 7, "called before the message was there");
        require(calls.order == std::vector<int>{0, 1, 2, 3}, "the order is not that of the ends");
        require(!calls.made.try_acquire(), "called twice");
      }
    });
  }
}

// The next call starts in the callback of the one before. No thread of the program waits meanwhile.
TEST_P(CallbacksOver, ACallbackStartsCalls) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    constexpr int kCalls = 200;
    std::vector<double> data(8192, 1);
    std::promise<void> ended;
    std::function<void(const Work&)> next = [&, left = kCalls](const Work& work) mutable {
      if (work.error() != nullptr || --left == 0) return ended.set_value();
      if (left % 2 == 0) {
        c.barrier();
        std::vector<int> one{1};
        c.all_reduce(one);  // and a callback waits
        require(one[0] == 2, "a call in a callback gave a wrong sum");
      }
      c.all_reduce_async(data, ReduceOp::average).then(std::ref(next));
    };
    c.all_reduce_async(data, ReduceOp::average).then(std::ref(next));
    ended.get_future().wait();
    require(data.front() == 1 && data.back() == 1, "a chain of calls gave wrong sums");
  });
}

TEST_P(CallbacksOver, ACallbackThatBlocksHoldsUpNoCall) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::binary_semaphore goes_on{0};
    Calls calls;
    std::vector<int> data(100'000, 1), other(100'000, 1);
    c.all_reduce_async(data).then([&](const Work&) { goes_on.acquire(); });
    const Work second = c.all_reduce_async(other);
    second.then(calls.number(0));
    while (!second.done()) std::this_thread::sleep_for(milliseconds(1));  // no thread of the program drives
    require(other.back() == 2 && !calls.made.try_acquire(), "called while the callback before still runs");
    c.barrier();
    goes_on.release();
    calls.await(1);
  });
}

TEST_P(CallbacksOver, ACallbackThatThrowsIsLoggedWithItsCall) {
  ::testing::internal::CaptureStderr();
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> data(4, 1);
    Calls calls;
    const Work sum = c.all_reduce_async(data);
    sum.then([](const Work&) { throw std::runtime_error("no room on the disk"); });
    sum.then([](const Work&) { throw 7; });
    sum.then(calls.number(0));
    const Work to_self = c.send_async(data, c.rank());
    to_self.then([](const Work&) { throw std::runtime_error("no such file"); });
    to_self.then(calls.number(1));
    c.recv(data, c.rank());
    calls.await(2);
    c.barrier();  // nothing has failed
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const std::string part :
       {"rank 1: the callback of call 2, all_reduce(sum of 4 float32", "has thrown: no room on the disk",
        "has thrown: no std::exception", "the callback of a message, 4 float32, has thrown: no such file"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in\n" << said;
}

TEST_P(CallbacksOver, ACallbackMayDropTheLastCommunicator) {
  const Watchdog watchdog(seconds(60));
  for (int round = 0; round < 10; ++round) {
    const auto store = make_memory_store();
    std::barrier both(2);
    in_threads(2, [&](int rank) {
      auto c = std::make_optional(
          Communicator::create(store, rank, 2, {.timeout = seconds(30), .transports = GetParam()}));
      std::vector<int> data(1000, 1), never(1);
      std::vector<std::string> outcomes;  // written by the thread of the callbacks alone
      std::promise<void> ended;
      auto sum = std::make_optional(c->all_reduce_async(data));
      Work unmet = c->recv_async(never, 1 - rank);
      unmet.then([&](const Work& work) {
        outcomes.push_back(text_of(work.error()));
        unmet = {};
        ended.set_value();
      });
      sum->then([&](const Work& work) {
        both.arrive_and_wait();  // the other rank has its sum too, and no call but the one that fails
        outcomes.push_back(text_of(work.error()));
        sum.reset();
        c.reset();
      });
      ended.get_future().wait();
      require(outcomes.size() == 2 && outcomes[0].empty(), "the call that was over has failed");
      require(outcomes[1].find("destroyed its communicator") != std::string::npos, outcomes[1]);
    });
  }
}

TEST_P(CallbacksOver, TheEndOfTheCommunicatorCallsAll) {
  const Watchdog watchdog(seconds(60));
  const auto store = make_memory_store();
  in_threads(2, [&](int rank) {
    std::atomic<int> called = 0;
    std::vector<int> data(100);
    Work late;
    {
      auto c = Communicator::create(store, rank, 2, {.timeout = seconds(30), .transports = GetParam()});
      c.barrier();
      for (int tag = 0; tag < 10; ++tag) {
        late = c.recv_async(data, 1 - rank, tag);
        late.then([&](const Work& work) {
          std::this_thread::sleep_for(milliseconds(2));
          if (work.error() != nullptr) ++called;
        });
      }
    }
    require(called == 10, "callbacks run after the end of the communicator, or never");
    std::promise<std::string> outcome, of_none;
    late.then([&](const Work& work) { outcome.set_value(text_of(work.error())); });
    require(!outcome.get_future().get().empty(), "the outcome of an operation has changed");
    Work().then([&](const Work& work) { of_none.set_value(text_of(work.error())); });
    require(of_none.get_future().get().empty(), "a Work without an operation has failed");
  });
}

TEST_P(CallbacksOver, AFailureCallsAllWithItsCause) {
  std::barrier together(3);
  expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<std::string> outcomes;  // written by the thread of the callbacks alone
    std::vector<float> data(1000), word(1);
    Calls calls;
    together.arrive_and_wait();  // no rank is still in create()
    const auto note = [&](const Work& work) {
      outcomes.push_back(text_of(work.error()));
      calls.made.release();
    };
    std::vector<Work> works;
    for (int tag = 0; tag < 5; ++tag) works.push_back(c.recv_async(word, (c.rank() + 1) % 3, tag));
    for (const Work& work : works) work.then(note);
    if (c.rank() == 1) c.abort("the loss is NaN");
    calls.await(5);
    for (const std::string& outcome : outcomes)
      require(outcome.find("rank 1 aborted: the loss is NaN") != outcome.npos, outcome);
    c.all_reduce_async(data).then(note);  // of a communicator that has failed
    calls.await(1);
    require(outcomes.back().find("rank 1 aborted") != std::string::npos, outcomes.back());
  });
}

TEST_P(CallbacksOver, GoWithThreadsThatWait) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    Communicator other = c.split(0);
    constexpr int kRounds = 300;
    std::atomic<int> called = 0;
    std::vector<float> shared(3000, 1);
    std::thread second([&] {
      for (int i = 0; i < kRounds; ++i)
        other.all_reduce_async(shared, ReduceOp::max).then([&](const Work&) { ++called; });
      other.barrier();
    });
    std::vector<float> data(2, 1);
    for (int i = 0; i < kRounds; ++i) c.all_reduce(data, ReduceOp::max);
    second.join();
    while (called < kRounds) std::this_thread::sleep_for(milliseconds(1));
    require(data[0] == 1, "a wrong maximum");
  });
}

TEST_P(CallbacksOver, WrongOnesAreRefused) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const Work barrier = c.barrier_async();
    try {
      barrier.then(nullptr);
      throw std::runtime_error("an empty function was taken");
    } catch (const InvalidArgumentError&) {
    }
    barrier.wait();
    std::string refusal;
    const auto combine = [&](void*, const void*, const void*, std::uint64_t, DType) {
      try {
        barrier.then([](const Work&) {});
      } catch (const InvalidArgumentError& error) {
        refusal = error.what();
      }
    };
    std::vector<int> data(4);
    c.reduce(data, data, 0, Reduction::custom({"calls_back", combine, true}));
    c.barrier();
    require(refusal.find("then") != refusal.npos || c.rank() > 0, "a reduction may call back: " + refusal);
  });
}

class WaitAllOver : public ::testing::TestWithParam<const char*> {};

TEST_P(WaitAllOver, WaitsForAllAndThrowsTheFirstError) {
  std::barrier both(2);
  expect_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
    Communicator other = c.split(0);
    std::vector<std::vector<float>> data(50, std::vector<float>(5000, 1));
    std::vector<Work> works{Work()};
    for (auto& part : data) works.push_back((works.size() % 2 == 0 ? c : other).all_reduce_async(part));
    wait_all(works);
    for (const auto& part : data) require(part.back() == 2, "not all were waited for");
    wait_all({});

    std::vector<float> early(1), late(1);
    const std::vector<Work> receives{c.recv_async(early, 1 - c.rank(), 1),
                                     c.recv_async(late, 1 - c.rank(), 2)};
    c.send(early, 1 - c.rank(), 1);
    require(!wait_all(receives, milliseconds(20)), "a message that was not sent has come");
    require(wait_all(std::span(receives).first(1), seconds(20)), "a message that was sent has not come");
    both.arrive_and_wait();  // an abort ends a barrier of the other rank, too
    c.abort("enough");
    std::string error;
    try {
      wait_all(receives);
    } catch (const AbortedError& thrown) {
      error = thrown.what();
    }
    require(error.find("with tag 2") != error.npos, "not the error of the one that failed: " + error);
    require(receives[0].error() == nullptr, "one that was over has failed");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, CallbacksOver, kTransports, kTransportNames);
INSTANTIATE_TEST_SUITE_P(Conformance, WaitAllOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
