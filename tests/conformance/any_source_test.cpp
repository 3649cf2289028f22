// recv_any(), which matches the first sender, and wait_any(), which returns the first operation that ends.
#include <atomic>
#include <numeric>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// `count` numbers that identify the sender and the message.
std::vector<int> message(std::size_t count, int sender, int number) {
  std::vector<int> values(count, sender * 1000 + number);
  std::iota(values.begin(), values.end(), sender * 1000 + number);
  return values;
}

void expect_error(const std::string& error, const std::vector<std::string>& said) {
  for (const std::string& part : said) EXPECT_NE(error.find(part), std::string::npos) << error;
}

class AnySourceOver : public ::testing::TestWithParam<const char*> {};

TEST_P(AnySourceOver, EveryMessageComesOnceInTheOrderOfItsSender) {
  constexpr int kMessages = 20;
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, std::size_t{700'001}}) {
      c.barrier();
      if (c.rank() > 0) {
        for (int k = 0; k < kMessages; ++k) c.send(message(count, c.rank(), k), 0, 5);
        continue;
      }
      std::vector<int> next(4, 0);
      for (int k = 0; k < 3 * kMessages; ++k) {
        std::vector<int> got(count);
        const int source = c.recv_any(got, 5);
        require(source > 0 && source < 4, "no such source");
        require(got == message(count, source, next[static_cast<std::size_t>(source)]++),
                "a message came wrong, or out of its order");
      }
    }
    // Messages without elements carry only their source.
    if (c.rank() > 0) {
      c.send(std::vector<int>(), 0, 6);
    } else {
      std::vector<int> nothing;
      std::vector<int> sources;
      for (int k = 0; k < 3; ++k) sources.push_back(c.recv_any(nothing, 6));
      std::sort(sources.begin(), sources.end());
      require(sources == std::vector<int>{1, 2, 3}, "a message without elements was lost");
    }
  });
}

// On some links a short message overtakes a long one.
TEST_P(AnySourceOver, AShortMessageDoesNotOvertakeALongOne) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    for (int round = 0; round < 20; ++round) {
      if (c.rank() == 1) {
        const auto large = message(2'000'003, 1, round);
        const auto small = message(3, 1, round);
        const Work first = c.send_async(large, 0);
        const Work second = c.send_async(small, 0);
        second.wait();
        first.wait();
        continue;
      }
      if (round % 2 == 0) std::this_thread::sleep_for(milliseconds(2));
      std::vector<int> large(2'000'003), small(3);
      const Work first = c.recv_any_async(large);
      const Work second = c.recv_any_async(small);
      second.wait();
      first.wait();
      require(large == message(2'000'003, 1, round) && small == message(3, 1, round), "wrong messages");
    }
  });
}

TEST_P(AnySourceOver, SeveralReceivesAreServedWhileMessagesCome) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& c) {
    constexpr std::size_t kCount = 20'000;
    for (int round = 0; round < 10; ++round) {
      if (c.rank() > 0) {
        c.send(message(kCount, c.rank(), round), 0, c.rank() % 2);
        c.barrier();
        continue;
      }
      // Ranks 1 and 3 send with tag 1, rank 2 with tag 0, and this rank to itself.
      std::vector<std::vector<int>> got(4, std::vector<int>(kCount));
      const auto own = message(kCount, 0, round);
      std::vector<Work> receives;
      for (std::size_t k = 0; k < 4; ++k) receives.push_back(c.recv_any_async(got[k], k < 2 ? 1 : 0));
      const Work send = c.send_async(own, 0, 0);
      std::vector<int> sources;
      std::vector<Work> left = receives;
      while (!left.empty()) {
        const std::size_t first = wait_any(left);
        require(left[first].done(), "wait_any names one that is not done");
        left[first].wait();
        sources.push_back(left[first].source());
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(first));
      }
      send.wait();
      for (std::size_t k = 0; k < 4; ++k) {
        const int source = receives[k].source();
        require(got[k] == message(kCount, source, round), "a message came wrong");
        require((source % 2 == 1) == (k < 2), "a message came to another tag");
      }
      std::sort(sources.begin(), sources.end());
      require(sources == std::vector<int>{0, 1, 2, 3}, "a message was lost or came twice");
      require(send.source() == -1, "a send has a source");
      c.barrier();
    }
  });
}

TEST_P(AnySourceOver, GoesTogetherWithReceivesThatNameTheirRank) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    if (c.rank() == 0) {
      std::vector<int> named(10), any(10);
      const Work from_any = c.recv_any_async(any);
      const Work from_two = c.recv_async(named, 2);
      c.barrier();
      from_two.wait();
      from_any.wait();
      require(from_two.source() == 2 && named == message(10, 2, 0), "a named receive got another's message");
      const int source = from_any.source();
      require(any == message(10, source, source == 2 ? 1 : 0), "a receive from any rank got a taken message");
      // Named receives get the remaining messages, so none was skipped.
      c.recv(any, 1, 0 + (source == 1 ? 1 : 0));
      require(any == message(10, 1, source == 1 ? 7 : 0), "the numbers of messages went wrong");
      if (source == 1) {
        c.recv(any, 2);
        require(any == message(10, 2, 1), "the numbers of messages went wrong");
      } else {
        c.recv(any, 1, 1);
        require(any == message(10, 1, 7), "the numbers of messages went wrong");
      }
      c.send(std::vector<int>{source}, 1, 2);
      return;
    }
    c.barrier();
    if (c.rank() == 1) {
      const std::vector<int> sent = message(10, 1, 0);
      const Work first = c.send_async(sent, 0);
      first.wait();
      c.send(message(10, 1, 7), 0, 1);
      std::vector<int> source(1);
      c.recv(source, 0, 2);
    } else {
      c.send(message(10, 2, 0), 0);
      c.send(message(10, 2, 1), 0);
    }
  });
}

TEST_P(AnySourceOver, APartHasItsOwnNumbersAndMessages) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& c) {
    Communicator part = c.split(c.rank() == 0 ? 1 : 0, -c.rank());  // ranks 3, 2, 1 are 0, 1, 2
    if (c.rank() == 1) {
      c.send(std::vector<int>{1}, 3);
      part.send(std::vector<int>{2}, 0);
    }
    if (c.rank() == 3) {
      std::vector<int> value(1);
      require(part.recv_any(value) == 2 && value[0] == 2, "a message of another communicator was taken");
      require(c.recv_any(value) == 1 && value[0] == 1, "a message was lost");
    }
    c.barrier();
  });
}

TEST_P(AnySourceOver, WhatARankSentBeforeItLeftIsReceivedAndThenItIsNamed) {
  const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    std::vector<int> got(1);
    if (c.rank() > 0) {
      c.send(std::vector<int>{c.rank()}, 0);
      return;
    }
    std::this_thread::sleep_for(milliseconds(100));
    const int one = c.recv_any(got), other = c.recv_any(got);
    require(one + other == 3 && one != other, "a message was lost");
    c.recv_any(got);
  });
  expect_error(outcome.errors[0], {"has left, and no other rank is there that could send",
                                   "recv(1 int32) from any rank with tag 0"});
  EXPECT_EQ(outcome.errors[1] + outcome.errors[2], "");
}

TEST_P(AnySourceOver, ADeadlineBlamesNoRankThatAnswers) {
  std::atomic<bool> over{false};
  const Outcome outcome =
      run_ranks({.size = 3, .transport = GetParam(), .timeout = milliseconds(400)}, [&](Communicator& c) {
        std::vector<float> data(4);
        if (c.rank() == 1) c.send(data, 0, 7);
        if (c.rank() == 0) {
          const struct AtEnd {
            std::atomic<bool>& is_over;
            ~AtEnd() { is_over = true; }
          } at_end{over};
          try {
            c.recv_any(data, 6);
          } catch (const TimeoutError& error) {
            require(error.context().peer == -1, "a rank that answers was blamed");
            throw;
          }
        }
        while (!over) std::this_thread::sleep_for(milliseconds(10));
      });
  expect_error(outcome.errors[0], {"no rank has sent such a message", "rank 1 has sent one with tag 7",
                                   "recv(4 float32) from any rank with tag 6 failed after"});
}

TEST_P(AnySourceOver, AMessageThatDoesNotFitIsNamed) {
  expect_mismatch(GetParam(), 3,
                  [](Communicator& c) {
                    std::vector<float> data(4);
                    if (c.rank() == 2) c.send(data, 0, 5);
                    if (c.rank() == 0) c.recv_any(Buffer(data.data(), 3, DType::int32), 5);
                  },
                  {"message 1 with tag 5", "rank 2 called send(4 float32) to rank 0",
                   "rank 0 called recv(3 int32) from rank 2"});
}

TEST_P(AnySourceOver, AFailureEndsItAndTheNextOneFailsAtOnce) {
  const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    std::vector<int> data(4);
    if (c.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(50));
      c.abort("enough");
    }
    const Work work = c.recv_any_async(data, 3);
    try {
      work.wait();
    } catch (const AbortedError&) {
      require(work.source() == -1, "a message that never came has a source");
      c.recv_any(data, 3);
    }
  });
  for (const std::string& error : outcome.errors) expect_error(error, {"rank 1", "enough", "from any rank"});
}

TEST_P(AnySourceOver, WrongArgumentsAreRefused) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<int> data(4);
    const auto is_refused = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const InvalidArgumentError&) {
        return true;
      }
      return false;
    };
    require(is_refused([&] { c.recv_any(data, -1); }), "a tag below 0");
    require(is_refused([&] { c.recv_any(Buffer(nullptr, 4, DType::int32)); }), "null");
    require(is_refused([&] { c.recv(data, -1); }), "a rank below 0");
    require(is_refused([&] { (void)wait_any({}); }), "nothing to wait for");
  });
}

class WaitAnyOver : public ::testing::TestWithParam<const char*> {};

// A server has a communicator for each of its workers, and waits for the first worker that calls.
TEST_P(WaitAnyOver, OperationsOfSeveralCommunicators) {
  std::vector<std::shared_ptr<Store>> stores{make_memory_store(), make_memory_store(), make_memory_store()};
  constexpr int kMessages = 30;
  in_threads(4, [&](int place) {
    const Options options{.timeout = seconds(30), .transports = GetParam()};
    if (place < 3) {
      auto server = Communicator::create(stores[static_cast<std::size_t>(place)], 1, 2, options);
      for (int k = 0; k < kMessages; ++k) {
        server.send(std::vector<int>{place, k}, 0);
        std::vector<int> answer(2);
        server.recv(answer, 0);
        require(answer == std::vector<int>{k, place}, "another worker's answer");
      }
      return;
    }
    std::vector<std::vector<int>> requests(3, std::vector<int>(2));
    std::vector<int> nothing(1);
    std::vector<Communicator> workers;
    for (const auto& store : stores) workers.push_back(Communicator::create(store, 0, 2, options));
    const std::vector<Work> in_vain{workers[0].recv_async(nothing, 1, 9)};
    require(!wait_any(in_vain, milliseconds(20)), "a receive without a message is done");
    std::vector<std::size_t> busy{0, 1, 2};
    std::vector<Work> receives;
    for (const std::size_t w : busy) receives.push_back(workers[w].recv_async(requests[w], 1));
    std::vector<int> served(3);
    while (!busy.empty()) {
      const std::size_t first = wait_any(receives);
      const std::size_t w = busy[first];
      receives[first].wait();
      require(requests[w] == std::vector<int>{static_cast<int>(w), served[w]++}, "a request came wrong");
      workers[w].send(std::vector<int>{requests[w][1], requests[w][0]}, 1);
      if (served[w] < kMessages) {
        receives[first] = workers[w].recv_async(requests[w], 1);
      } else {
        busy.erase(busy.begin() + static_cast<std::ptrdiff_t>(first));
        receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
  });
}

// The failed operation is the one that ends; the other operation continues.
TEST_P(WaitAnyOver, ADeadPeerEndsOnlyItsOwn) {
  std::vector<std::shared_ptr<Store>> stores{make_memory_store(), make_memory_store()};
  in_threads(3, [&](int place) {
    const Options options{.timeout = seconds(30), .transports = GetParam()};
    if (place < 2) {
      auto server = Communicator::create(stores[static_cast<std::size_t>(place)], 1, 2, options);
      std::this_thread::sleep_for(milliseconds(place == 0 ? 50 : 300));
      if (place == 1) server.send(std::vector<int>{7}, 0);
      return;
    }
    std::vector<int> one(1), other(1);
    std::vector<Communicator> workers;
    for (const auto& store : stores) workers.push_back(Communicator::create(store, 0, 2, options));
    const std::vector<Work> receives{workers[0].recv_async(one, 1), workers[1].recv_async(other, 1)};
    require(wait_any(receives) == 0, "the receive from the peer that has left is not done");
    bool is_lost = false;
    try {
      receives[0].wait();
    } catch (const PeerLostError&) {
      is_lost = true;
    }
    require(is_lost, "a receive from a peer that has left succeeded");
    receives[1].wait();
    require(other[0] == 7, "the other communicator failed too");
  });
}

TEST_P(WaitAnyOver, TestMakesProgressAndTellsTheEnd) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<int> data(300'000, c.rank());
    const Work sum = c.all_reduce_async(data);
    while (!sum.test()) std::this_thread::yield();
    require(data[0] == 1 && data[299'999] == 1, "done before the sum was there");
    require(Work().test(), "a Work without an operation counts as done");
  });
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    if (c.rank() == 1) return;
    std::vector<int> data(4);
    const Work receive = c.recv_async(data, 1);
    while (!receive.test()) std::this_thread::yield();
  });
  expect_error(outcome.errors[0], {"rank 1 has left"});
}

TEST_P(AnySourceOver, SendrecvPassesDataAroundARing) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{700'001}}) {
    expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
      const int next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
      std::vector<int> got(count);
      for (int round = 0; round < 5; ++round) {
        const auto own = message(count, c.rank(), round);
        c.sendrecv(own, next, got, before, 4);
        require(got == message(count, before, round), "a message came wrong around the ring");
        c.sendrecv(own, before, got, next, 4);
        require(got == message(count, next, round), "a message came wrong around the ring");
        if (c.rank() < 2) c.sendrecv(own, 1 - c.rank(), got, 1 - c.rank(), 4);
        require(c.rank() == 2 || got == message(count, 1 - c.rank(), round), "an exchange went wrong");
        c.sendrecv(own, c.rank(), got, c.rank(), 4);
        require(got == own, "a rank's message to itself came wrong");
      }
      // Each half meets a send or a recv of its own.
      const auto own = message(count, c.rank(), 7);
      if (c.rank() == 0) {
        const auto works = c.sendrecv_async(own, 1, got, 2);
        wait_all(works);
        require(works[1].source() == 2 && got == message(count, 2, 7), "a send and a sendrecv do not meet");
      } else if (c.rank() == 1) {
        c.recv(got, 0);
        require(got == message(count, 0, 7), "a recv and a sendrecv do not meet");
      } else {
        c.send(own, 0);
      }
    });
  }
}

TEST_P(AnySourceOver, AWrongSendrecvStartsNeitherHalf) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const int other = 1 - c.rank();
    std::vector<int> out(4, c.rank()), in(4);
    const auto refused = [](const char* said, const std::function<void()>& call) {
      std::string error;
      try {
        call();
      } catch (const InvalidArgumentError& thrown) {
        error = thrown.what();
      }
      require(error.find(said) != error.npos && error.find("sendrecv") != error.npos, "said: " + error);
    };
    refused("peer 2", [&] { c.sendrecv(out, other, in, 2); });
    refused("peer -1", [&] { c.sendrecv(out, -1, in, other); });
    refused("tag", [&] { c.sendrecv(out, other, in, other, -1); });
    refused("null", [&] { c.sendrecv(Buffer(nullptr, 4, DType::int32), other, in, other); });
    refused("overlap", [&] { c.sendrecv(std::span(in).first(3), other, std::span(in).last(3), other); });
    c.sendrecv(out, other, in, other);
    require(in[0] == other, "a refused half was in flight");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, AnySourceOver, kTransports, kTransportNames);
INSTANTIATE_TEST_SUITE_P(Conformance, WaitAnyOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
