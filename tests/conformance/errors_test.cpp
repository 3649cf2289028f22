// Errors: wrong arguments, ranks that disagree, ranks that stall or are lost.
#include <atomic>

#include "support/cluster.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"
#include "support/types.hpp"
#include "support/watchdog.hpp"
#include "transport/inproc/faults.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

class ErrorsOver : public ::testing::TestWithParam<const char*> {};

TEST_P(ErrorsOver, WrongArgumentsAreRefusedBeforeAnyByteMoves) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> four(4, 1.0f);
    std::vector<float> five(5);
    std::vector<double> doubles(4);
    const auto before = c.counters();
    const std::string own = "rank " + std::to_string(c.rank()) + ": ";
    const auto refused = [&](const char* expected, const std::function<void()>& call) {
      try {
        call();
      } catch (const InvalidArgumentError& error) {
        const std::string text = error.what();
        if (text.starts_with(own) && error.context().peer == c.rank() && text.find(expected) != text.npos)
          return;
        throw std::runtime_error(std::string("unclear: '") + error.what() + "' does not say '" + expected +
                                 "'");
      }
      throw std::runtime_error(std::string("not refused: ") + expected);
    };
    refused("null", [&] { c.all_reduce(Buffer(nullptr, 4, DType::float32)); });
    refused("null", [&] { c.send(ConstBuffer(nullptr, 4, DType::float32), 1 - c.rank()); });
    refused("root 2", [&] { c.broadcast(four, 2); });
    refused("root -1", [&] { c.reduce(four, four, -1); });
    refused("needed", [&] { c.all_reduce(four, five); });
    refused("float64", [&] { c.all_reduce(four, doubles); });
    refused("overlap", [&] {
      c.all_reduce(ConstBuffer(four.data(), 3, DType::float32), Buffer(four.data() + 1, 3, DType::float32));
    });
    refused("overlap", [&] { c.all_gather(ConstBuffer(four.data() + 1, 2, DType::float32), four); });
    refused("divide", [&] { c.reduce_scatter(five, four); });
    refused("counts", [&] { c.all_gather(four, five, std::vector<std::uint64_t>{1, 2, 3}); });
    refused("one buffer", [&] { c.all_to_all(four, four); });
    refused("in place", [&] { c.all_to_all(four, {.algorithm = "direct"}); });
    refused("directions", [&] { c.all_to_all(four, five, std::vector<std::uint64_t>{2, 2}); });
    refused("peer 7", [&] { c.send(four, 7); });
    refused("tag", [&] { c.recv(four, 0, -3); });
    refused("overlap", [&] { c.sendrecv(four, 0, four, 1); });
    refused("transport_to", [&] { (void)c.transport_to(2); });
    refused("ring", [&] { c.all_reduce(four, ReduceOp::sum, {.algorithm = "rnig"}); });
    refused("rank", [&] { (void)c.subgroup(std::vector<int>{0, 5}); });
    refused("twice", [&] { (void)c.subgroup(std::vector<int>{1, 1}); });
    refused("custom", [&] { c.all_reduce(four, ReduceOp::custom); });
    refused("custom", [&] { c.reduce(four, four, 0, ReduceOp::custom); });
    refused("no known operation", [&] { c.all_reduce(four, static_cast<ReduceOp>(77)); });
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kReduceOps) {
        const std::string names = std::string(name_of(op)) + " of " + std::string(name_of(dtype)) + ": ";
        if (!knows(dtype, op))
          refused(names.c_str(), [&] { c.all_reduce(Buffer(four.data(), 1, dtype), op); });
      }
    }
    refused("no known format", [&] { c.all_reduce(four, ReduceOp::sum, {.wire = static_cast<Wire>(7)}); });
    if (c.counters().messages_sent != before.messages_sent || c.counters().operations != before.operations) {
      throw std::runtime_error("a refused call moved something");
    }
    c.all_reduce(four);  // the communicator still works
    if (four[0] != 2.0f) throw std::runtime_error("wrong sum after refused calls");
    c = {};
    EXPECT_THROW(c.barrier(), InvalidArgumentError);
  });
}

TEST_P(ErrorsOver, RanksThatDisagreeAllLearnWhoAskedForWhat) {
  std::vector<std::vector<float>> memory(4, std::vector<float>(100'000));
  const auto data = [&](Communicator& c, std::uint64_t count) {
    return Buffer(memory[static_cast<std::size_t>(c.rank())].data(), count, DType::float32);
  };
  const auto odd = [](Communicator& c) { return c.rank() == 1; };
  for (const int size : {2, 3, 4}) {
    // Counts, both short, both long, and one of each.
    expect_mismatch(GetParam(), size, [&](Communicator& c) { c.all_reduce(data(c, odd(c) ? 999 : 1000)); },
                    {"rank 1", "999", "1000"});
    expect_mismatch(GetParam(), size,
                    [&](Communicator& c) { c.all_reduce(data(c, odd(c) ? 99'999 : 100'000)); },
                    {"rank 1", "99999"});
    expect_mismatch(GetParam(), size, [&](Communicator& c) { c.all_reduce(data(c, odd(c) ? 10 : 100'000)); },
                    {"rank 1", "(sum of 10 "});
    expect_mismatch(GetParam(), size, [&](Communicator& c) { c.all_reduce(data(c, odd(c) ? 0 : 10)); },
                    {"rank 1", "(sum of 0 "});
    // Reduction, type, operation, root, algorithm.
    expect_mismatch(
        GetParam(), size,
        [&](Communicator& c) { c.all_reduce(data(c, 10), odd(c) ? ReduceOp::max : ReduceOp::sum); },
        {"rank 1", "max", "sum"});
    expect_mismatch(GetParam(), size,
                    [&](Communicator& c) {
                      Buffer buffer = data(c, 10);
                      if (odd(c)) buffer.dtype = DType::int32;
                      c.all_reduce(buffer);
                    },
                    {"rank 1", "int32", "float32"});
    expect_mismatch(GetParam(), size,
                    [&](Communicator& c) {
                      if (odd(c)) {
                        c.broadcast(data(c, 10), 1);
                      } else {
                        c.all_reduce(data(c, 10));
                      }
                    },
                    {"rank 1", "broadcast", "all_reduce"});
    expect_mismatch(GetParam(), size, [&](Communicator& c) { c.broadcast(data(c, 10), odd(c) ? 1 : 0); },
                    {"rank 1", "root 1", "root 0"});
    expect_mismatch(GetParam(), size,
                    [&](Communicator& c) {
                      c.all_reduce(data(c, 10), ReduceOp::sum, {.algorithm = odd(c) ? "central" : "ring"});
                    },
                    {"rank 1", "central", "ring"});
    // Amounts that differ by whole segments, so that each segment matches its receive.
    for (const bool is_more : {false, true}) {
      expect_mismatch(GetParam(), size,
                      [&](Communicator& c) {
                        const auto ranks = static_cast<std::size_t>(c.size());
                        std::vector<std::uint64_t> sent(ranks), received(ranks);
                        if (c.rank() == 0) sent[1] = is_more ? 20'000 : 10'000;
                        if (c.rank() == 1) received[0] = is_more ? 10'000 : 20'000;
                        std::vector<std::uint8_t> in(sent[1]), out(received[0]);
                        c.all_to_all(in, out, sent, received, {.segment_bytes = 10'000});
                        c.barrier();
                      },
                      {"rank 1", "rank 0", "uneven counts"});
    }
    // Order of calls.
    expect_mismatch(GetParam(), size,
                    [&](Communicator& c) {
                      if (odd(c)) c.barrier();
                      c.all_reduce(data(c, 10));
                      if (!odd(c)) c.barrier();
                    },
                    {"rank 1", "barrier", "all_reduce"});
  }
}

// The message is short or long; its receive is posted before it arrives, or later.
TEST_P(ErrorsOver, MessagesThatDoNotFitTheirReceiveAreNamedAsTheirCallersWroteThem) {
  for (const int count : {4, 100'000}) {
    for (const int late : {0, 1}) {
      expect_mismatch(
          GetParam(), 3,
          [&](Communicator& c) {
            std::vector<float> data(static_cast<std::size_t>(count));
            if (c.rank() == late) std::this_thread::sleep_for(milliseconds(50));
            if (c.rank() == 0) c.send(data, 1, 5);
            if (c.rank() == 1) c.recv(Buffer(data.data(), 3, DType::int32), 0, 5);
          },
          {"message 1 with tag 5", "rank 0 called send(" + std::to_string(count) + " float32) to rank 1",
           "rank 1 called recv(3 int32) from rank 0"});
    }
  }
}

// The ranks of a part have numbers of their own.
TEST_P(ErrorsOver, AMessageInVainIsNamedAsItsCallerWroteIt) {
  std::atomic<bool> over{false};
  const Outcome outcome =
      run_ranks({.size = 3, .transport = GetParam(), .timeout = milliseconds(400)}, [&](Communicator& c) {
        Communicator part = c.split(c.rank() == 0 ? 1 : 0);
        std::vector<float> data(4);
        if (c.rank() == 2) {
          const struct AtEnd {
            std::atomic<bool>& is_over;
            ~AtEnd() { is_over = true; }
          } at_end{over};
          part.recv(data, 0, 6);
        }
        if (c.rank() == 1) part.send(data, 1, 7);
        while (!over) std::this_thread::sleep_for(milliseconds(10));
      });
  const std::string& error = outcome.errors[2];
  EXPECT_NE(error.find("recv(4 float32) from rank 0 with tag 6 of the part with ranks 1, 2 failed after"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("it has sent one with tag 7"), std::string::npos) << error;
}

// Data of one or several segments; the call is refused inside the reduction of one rank.
TEST_P(ErrorsOver, AReductionThatCallsKoloEndsItsCallOnAllRanks) {
  const std::vector<std::pair<std::string, std::function<void(Communicator&)>>> calls = {
      {"barrier", [](Communicator& c) { c.barrier(); }},
      {"send", [](Communicator& c) { c.send(std::vector<int>{1}, c.rank()); }},
      {"split", [](Communicator& c) { (void)c.split(0); }},
      {"subgroup", [](Communicator& c) { (void)c.subgroup(std::vector<int>{0}); }},
      {"shrink", [](Communicator& c) { (void)c.shrink(); }},
      {"counters", [](Communicator& c) { c.counters(); }},
      {"create", [](Communicator&) { (void)Communicator::create(make_memory_store(), 0, 1); }}};
  for (const auto& [name, call] : calls) {
    for (const std::size_t count : {2, 300'000}) {
      const auto begin = std::chrono::steady_clock::now();
      // The first rank that reduces. In shared memory a slow rank may have no slice left to reduce.
      std::atomic<int> odd = -1;
      const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
        const auto combine = [&](void*, const void*, const void*, std::uint64_t, DType) {
          int none = -1;
          odd.compare_exchange_strong(none, c.rank());
          if (odd == c.rank()) call(c);
        };
        std::vector<float> data(count);
        try {
          c.all_reduce(data, Reduction::custom({.name = "mine", .combine = combine, .commutative = true}));
          c.barrier();  // a rank may have got its sum before
        } catch (const InvalidArgumentError&) {
          throw;
        } catch (const Error& error) {
          throw std::runtime_error(std::string("of another type: ") + error.what());
        }
      });
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      const std::string expected = "the reduction \"mine\" has thrown on rank " + std::to_string(odd) + ": " +
                                   name + ": a reduction of your own must not call kolo";
      for (const std::string& error : outcome.errors)
        EXPECT_NE(error.find(expected), std::string::npos) << name << " " << count << ": " << error;
    }
  }
}

// Also if the rank waits for an operation that it started before.
TEST_P(ErrorsOver, AReductionThatWaitsIsRefused) {
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
    std::vector<float> received(1);
    const Work message = c.recv_async(received, 1 - c.rank());
    bool is_refused = false;
    const auto combine = [&](void* out, const void*, const void*, std::uint64_t, DType) {
      try {
        message.wait();
      } catch (const InvalidArgumentError&) {
        is_refused = true;
      }
      std::fill_n(static_cast<float*>(out), 1, 3.0f);
    };
    std::vector<float> data(1);
    c.reduce(data, data, 0, Reduction::custom({.name = "mine", .combine = combine, .commutative = true}));
    c.send(data, 1 - c.rank());
    message.wait();
    if (c.rank() == 0 && !(is_refused && data[0] == 3.0f)) throw std::runtime_error("not refused");
  });
  EXPECT_TRUE(outcome.all_ok()) << outcome.describe();
}

TEST_P(ErrorsOver, WhatAReductionThrowsIsToldToAllRanks) {
  const Outcome outcome = run_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
    const auto combine = [&](void*, const void*, const void*, std::uint64_t, DType) {
      throw std::runtime_error("no such sum");
    };
    std::vector<float> data(10);
    const Reduction mine = Reduction::custom({.name = "mine", .combine = combine, .commutative = true});
    c.all_reduce_async(data, mine).wait();
  });
  for (const std::string& error : outcome.errors)
    EXPECT_NE(error.find("the reduction \"mine\" has thrown on rank "), std::string::npos) << error;
  for (const std::string& error : outcome.errors)
    EXPECT_NE(error.find(": no such sum: call "), std::string::npos) << error;
}

TEST_P(ErrorsOver, ARankThatLeavesIsNamed) {
  const Outcome outcome = run_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    if (c.rank() == 2) return;
    std::vector<float> data(100'000);
    c.all_reduce(data);
  });
  for (const int r : {0, 1}) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(r)];
    EXPECT_NE(error.find("rank 2 has left"), std::string::npos) << error;
  }
}

// Also if the receiver is slow and posts its receive after the connection has ended.
TEST_P(ErrorsOver, WhatARankSentBeforeItLeftIsReceived) {
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
    constexpr int kMessages = 12;
    std::vector<std::vector<int>> values;
    for (int k = 0; k < kMessages; ++k) values.emplace_back(20'000, c.rank() == 0 ? k : -1);
    std::vector<Work> sends;
    for (auto& value : values) {
      if (c.rank() == 0) {
        sends.push_back(c.send_async(value, 1));
      } else {
        std::this_thread::sleep_for(milliseconds(&value == values.data() ? 300 : 30));
        c.recv(value, 0);
      }
    }
    for (const Work& send : sends) send.wait();
    for (int k = 0; k < kMessages; ++k) {
      if (values[static_cast<std::size_t>(k)] != std::vector<int>(20'000, k))
        throw std::runtime_error("a message came wrong");
    }
  });
  for (const std::string& error : outcome.errors) EXPECT_EQ(error, "");
}

// A rank that waits long sends pings to all ranks, also to those without a connection yet.
TEST_P(ErrorsOver, WhoHasDoneItsPartMayBeGoneWhenOthersAskForIt) {
  const Outcome outcome = run_ranks({.size = 8, .transport = GetParam(), .timeout = std::chrono::seconds(4)},
                                    [&](Communicator& c) {
                                      std::vector<std::int32_t> data(1000, 1);
                                      if (c.rank() == 1) std::this_thread::sleep_for(milliseconds(3700));
                                      c.reduce(data, data, 0, ReduceOp::sum, {.algorithm = "binomial"});
                                      if (c.rank() == 0 && data[999] != 8)
                                        throw std::runtime_error("wrong sum");
                                    });
  for (const std::string& error : outcome.errors) EXPECT_EQ(error, "");
}

TEST_P(ErrorsOver, RanksThatDoNotComeAreNamed) {
  auto store = make_memory_store();
  const Watchdog watchdog(std::chrono::seconds(60));
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        (void)Communicator::create(store, rank * 2, 4,
                                   {.timeout = milliseconds(300), .transports = GetParam()});
      } catch (const RendezvousError& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::string& error : errors)
    EXPECT_NE(error.find("ranks 1, 3 of 4 did not come"), std::string::npos) << error;
}

TEST_P(ErrorsOver, APoisonedCommunicatorRefusesAtOnceAndSaysWhy) {
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<int> data(c.rank() == 0 ? 3 : 4);
    try {
      c.all_reduce(data);
    } catch (const MismatchError&) {
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      c.barrier();
    } catch (const MismatchError& error) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
        throw std::runtime_error("waited");
      throw;
    }
  });
  for (const std::string& error : outcome.errors)
    EXPECT_NE(error.find("disagree"), std::string::npos) << error;
}

TEST_P(ErrorsOver, CallsWithDifferentLabelsAreAMismatchThatNamesBoth) {
  const auto errors_of = [](auto label, auto number) {
    return run_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& c) {
      std::vector<int> data(4);
      for (const std::uint32_t step : {1u, 2u})
        c.all_reduce(data, ReduceOp::sum, {.label = "the sum of step", .label_number = step});
      c.set_label(label(c), number(c));
      c.all_reduce(data);
    });
  };
  const auto same = [](Communicator&) { return std::string_view("the sum of step"); };
  for (const std::string& error :
       errors_of(same, [](Communicator& c) { return c.rank() == 2 ? 2u : 3u; }).errors) {
    EXPECT_NE(error.find("for the sum of step 3"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 2 called all_reduce(sum of 4 int32"), std::string::npos) << error;
    EXPECT_NE(error.find("for the sum of step 2"), std::string::npos) << error;
  }
  const auto another = [](Communicator& c) {
    return std::string_view(c.rank() == 2 ? "the norm of step" : "the sum of step");
  };
  for (const std::string& error : errors_of(another, [](Communicator&) { return 3u; }).errors) {
    EXPECT_NE(error.find("for the sum of step 3"), std::string::npos) << error;
    EXPECT_NE(error.find("for the norm of step 3"), std::string::npos) << error;
  }
}

TEST_P(ErrorsOver, SubgroupsOfDifferentListsAreAMismatchOnAllRanks) {
  const std::vector<int> lists[] = {{0, 1, 2}, {0, 2, 1}, {}};
  expect_ranks({.size = 4, .transport = GetParam()}, [&](Communicator& c) {
    const auto expect_told = [&](const std::function<void()>& ask, const std::string& what) {
      try {
        ask();
      } catch (const MismatchError& error) {
        require(std::string(error.what()).find(what) != std::string::npos, error.what());
        return;
      }
      require(false, "no mismatch");
    };
    expect_told([&] { (void)c.subgroup(lists[c.rank() == 1]); },
                "ranks 0, 2, 3 called subgroup({0, 1, 2}), rank 1 called subgroup({0, 2, 1})");
    expect_told([&] { c.rank() == 3 ? c.split(1) : c.subgroup(lists[2]); },
                "ranks 0, 1, 2 called subgroup({}), rank 3 called split()");
    require(c.subgroup(lists[1]).valid() == (c.rank() != 3), "unusable");
  });
}

// The calls inside split() are not the user's.
TEST_P(ErrorsOver, SplitsAreNamedAsSuch) {
  const auto split_or_barrier = [](Communicator& c) {
    c.barrier();
    (void)c.split(0);
    if (c.rank() == 1) c.barrier();
    (void)c.split(0);
  };
  expect_mismatch(GetParam(), 3, split_or_barrier,
                  {"rank 1", "split() or subgroup() number 2", "called barrier"});
  // Threads that split one communicator at once.
  const Outcome outcome = run_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& c) {
    std::atomic<bool> over = false;
    in_threads(2, [&](int) {
      try {
        for (int i = 0; i < 2000 && !over; ++i) (void)c.split(0);
      } catch (const Error& error) {
        over = true;
        require(error.context().collective == "split", error.context().collective);
        throw;
      }
    });
  });
  for (const std::string& error : outcome.errors) {
    EXPECT_EQ(error.find("all_"), std::string::npos) << error;
    EXPECT_NE(error.find("split() or subgroup() number "), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, ErrorsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
