// Properties across operations: many in flight, subgroups, messages, counters, the same bits on all ranks.
#include <array>
#include <bit>
#include <cstring>

#include <thread>
#include "algorithms/algorithm.hpp"
#include "selection/chooser.hpp"
#include "support/cluster.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

class CommunicatorOver : public ::testing::TestWithParam<const char*> {};

TEST_P(CommunicatorOver, ManyOperationsInFlight) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    constexpr int kOperations = 40;
    std::vector<Array> data;
    for (int k = 0; k < kOperations; ++k) {
      data.emplace_back(static_cast<std::uint64_t>(k * k * 37), DType::float32);
      data.back().fill([&](auto i) { return contribution(communicator.rank() + k, i, ReduceOp::sum); });
    }
    std::vector<Work> works;
    for (auto& array : data) works.push_back(communicator.all_reduce_async(array.buffer()));
    // The operations are waited for in another order than they are started.
    for (int k = kOperations - 1; k >= 0; --k) works[static_cast<std::size_t>(k)].wait();
    for (int k = 0; k < kOperations; ++k) {
      data[static_cast<std::size_t>(k)].expect("all_reduce in flight", [&](auto i) {
        double sum = 0;
        for (int r = 0; r < 4; ++r) sum += contribution(r + k, i, ReduceOp::sum);
        return sum;
      });
      require(works[static_cast<std::size_t>(k)].duration().count() > 0, "a finished operation took no time");
    }
  });
}

TEST_P(CommunicatorOver, AsynchronousWorkProceedsWithoutWaiting) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    std::vector<float> data(100'000, 1.0f);
    const Work work = communicator.all_reduce_async(data);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!work.done()) {
      require(std::chrono::steady_clock::now() < give_up, "nobody drives an asynchronous operation");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    require(data.front() == 3.0f && data.back() == 3.0f, "wrong sum");
    require(work.error() == nullptr && work.wait(std::chrono::nanoseconds(0)),
            "a finished operation is not done");
  });
}

TEST_P(CommunicatorOver, WaitWithATimeoutLeavesTheOperationRunning) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& communicator) {
    std::vector<int> data(10, 1);
    if (communicator.rank() == 0) {
      const Work work = communicator.all_reduce_async(data);
      require(!work.wait(std::chrono::milliseconds(30)), "done before the other rank came");
      communicator.send(std::vector<int>{1}, 1);
      work.wait();
    } else {
      std::vector<int> go(1);
      communicator.recv(go, 0);
      communicator.all_reduce(data);
    }
    require(data[9] == 2, "wrong sum");
  });
}

TEST_P(CommunicatorOver, SplitAndSubgroups) {
  expect_ranks({.size = 6, .transport = GetParam()}, [](Communicator& world) {
    const int rank = world.rank();
    // Two colors, ranks in reverse order.
    Communicator half = world.split(rank % 2, -rank);
    require(half.size() == 3 && half.rank() == 2 - rank / 2, "split ordered the ranks wrongly");
    std::vector<int> sum{rank};
    std::vector<int> world_sum{rank};
    const Work outer = world.all_reduce_async(world_sum);
    half.all_reduce(sum);
    outer.wait();
    require(sum[0] == (rank % 2 == 0 ? 6 : 9) && world_sum[0] == 15, "groups disturb each other");

    Communicator none = world.split(rank == 0 ? -1 : 0);
    require(none.valid() == (rank != 0), "a negative color must give no group");
    require((none == Communicator()) == (rank == 0), "only no group is equal to no group");
    require(half == Communicator(half) && half != world && half != none, "copies alone are equal");
    const int chosen[] = {4, 1};
    Communicator pair = world.subgroup(chosen);
    require(pair.valid() == (rank == 4 || rank == 1), "the wrong ranks are in the subgroup");
    if (pair.valid()) {
      require(pair.rank() == (rank == 4 ? 0 : 1), "the subgroup's order was not kept");
      std::vector<int> data{pair.rank() == 0 ? 77 : 0};
      pair.broadcast(data, 0);
      require(data[0] == 77, "broadcast in a subgroup");
    }
    // A split of a split.
    Communicator quarter = half.split(half.rank() == 0 ? 0 : 1);
    std::vector<int> ones{1};
    quarter.all_reduce(ones);
    require(ones[0] == quarter.size(), "a nested group counts wrongly");
    world.barrier();
  });
}

TEST_P(CommunicatorOver, SendAndRecv) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const int next = (rank + 1) % 3;
    const int previous = (rank + 2) % 3;
    for (const std::size_t count : {0ul, 1ul, 100ul, 5000ul, 1'000'003ul}) {
      std::vector<int> out(count);
      std::vector<int> in(count, -1);
      for (std::size_t i = 0; i < count; ++i) out[i] = rank * 1000 + static_cast<int>(i % 997);
      // All ranks receive first: no order of calls may deadlock.
      const Work receive = communicator.recv_async(in, previous, 5);
      communicator.send(out, next, 5);
      receive.wait();
      for (std::size_t i = 0; i < count; ++i) {
        require(in[i] == previous * 1000 + static_cast<int>(i % 997), "a message came wrong");
      }
    }
    // Tags are independent of each other; messages with one tag keep their order.
    if (rank == 0) {
      std::vector<Work> sends;
      std::vector<std::vector<int>> values;
      for (int k = 0; k < 10; ++k) values.push_back(std::vector<int>(20'000, k));
      for (int k = 0; k < 10; ++k)
        sends.push_back(communicator.send_async(values[static_cast<std::size_t>(k)], 1, k % 2));
      for (const Work& send : sends) send.wait();
    } else if (rank == 1) {
      for (const int tag : {1, 0}) {
        for (int k = tag; k < 10; k += 2) {
          std::vector<int> got(20'000);
          communicator.recv(got, 0, tag);
          require(got[0] == k && got[19'999] == k, "messages of one tag overtook each other");
        }
      }
    }
    // A message of a rank to itself.
    std::vector<int> mine(50'000, rank);
    std::vector<int> back(50'000);
    const Work to_me = communicator.send_async(mine, rank, 9);
    communicator.recv(back, rank, 9);
    to_me.wait();
    require(back == mine, "a message to oneself");
  });
}

// The claim of the ring (Patarasuk & Yuan 2009, section 3): each rank moves 2(N-1)/N of the data.
TEST_P(CommunicatorOver, RingSendsExactlyTheBandwidthOptimalBytes) {
  for (int size = 1; size <= 8; ++size) {
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      const auto ranks = static_cast<std::uint64_t>(size);
      for (const std::uint64_t count :
           {ranks * 1000, ranks * 1000 + 3, std::uint64_t{5}, std::uint64_t{200'003}}) {
        std::vector<float> data(count, 1.0f);
        const std::uint64_t before = communicator.counters().bytes_sent;
        communicator.all_reduce(data, ReduceOp::sum, {.algorithm = "ring"});
        const std::uint64_t sent = communicator.counters().bytes_sent - before;
        std::vector<std::uint64_t> total{sent};
        communicator.all_reduce(total);
        require(total[0] == 2 * (ranks - 1) * count * sizeof(float),
                "the ranks together sent " + std::to_string(total[0]));
        // A rank does not send one chunk in each half; chunks differ by at most one element.
        const std::uint64_t smallest = count / ranks * sizeof(float);
        const std::uint64_t largest = (count + ranks - 1) / ranks * sizeof(float);
        const std::uint64_t both_halves = 2 * count * sizeof(float);
        require(sent >= both_halves - 2 * largest && sent <= both_halves - 2 * smallest,
                "one rank sent " + std::to_string(sent));
      }
    });
  }
}

TEST_P(CommunicatorOver, AllRanksHoldTheSameBits) {
  expect_ranks({.size = 5, .transport = GetParam()}, [](Communicator& communicator) {
    constexpr std::size_t kCount = 100'003;
    for (const char* algorithm : {"ring", "central", ""}) {
      std::vector<float> data(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        data[i] = 1.0f / static_cast<float>(1 + i + 7919 * static_cast<std::size_t>(communicator.rank()));
      }
      communicator.all_reduce(data, ReduceOp::average, {.algorithm = algorithm});
      std::vector<float> all(kCount * 5);
      communicator.all_gather(data, all);
      for (std::size_t r = 0; r < 5; ++r) {
        require(std::memcmp(all.data() + r * kCount, data.data(), kCount * sizeof(float)) == 0,
                "ranks hold different bits");
      }
    }
  });
}

// An element is a 2x2 matrix of 16-bit numbers; their product is associative, not commutative.
std::uint64_t multiply_matrices(std::uint64_t left, std::uint64_t right) {
  const auto a = std::bit_cast<std::array<std::uint16_t, 4>>(left);
  const auto b = std::bit_cast<std::array<std::uint16_t, 4>>(right);
  const auto entry = [&](std::size_t row, std::size_t column) {
    return static_cast<std::uint16_t>(std::uint32_t{a[2 * row]} * b[column] +
                                      std::uint32_t{a[2 * row + 1]} * b[2 + column]);
  };
  return std::bit_cast<std::uint64_t>(std::array{entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)});
}

TEST_P(CommunicatorOver, CustomReductionsKeepRankOrder) {
  expect_ranks({.size = 5, .transport = GetParam()}, [](Communicator& communicator) {
    constexpr std::size_t kMatrices = 501;
    const auto matrices = [](int rank) {
      std::vector<std::uint64_t> result;
      for (std::size_t i = 0; i < kMatrices; ++i) {
        const auto a = static_cast<std::uint16_t>(rank * 3 + static_cast<int>(i) + 1);
        result.push_back(std::bit_cast<std::uint64_t>(std::array<std::uint16_t, 4>{
            a, static_cast<std::uint16_t>(a + 1), 1, static_cast<std::uint16_t>(rank)}));
      }
      return result;
    };
    const Reduction product = Reduction::custom(
        {.name = "matrix product",
         .combine =
             [](void* out, const void* left, const void* right, std::uint64_t count, DType) {
               for (std::uint64_t i = 0; i < count; ++i) {
                 static_cast<std::uint64_t*>(out)[i] = multiply_matrices(
                     static_cast<const std::uint64_t*>(left)[i], static_cast<const std::uint64_t*>(right)[i]);
               }
             },
         .commutative = false});
    auto expected = matrices(0);
    for (int r = 1; r < 5; ++r) {
      const auto next = matrices(r);
      for (std::size_t i = 0; i < kMatrices; ++i) expected[i] = multiply_matrices(expected[i], next[i]);
    }
    auto data = matrices(communicator.rank());
    communicator.all_reduce(data, product);
    require(data == expected, "all_reduce of matrices lost the order of ranks");
    for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
      if (algorithm.collective != schedule::Collective::all_reduce || !algorithm.rank_ordered) continue;
      data = matrices(communicator.rank());
      communicator.all_reduce(data, product, {.algorithm = algorithm.name});
      require(data == expected, std::string(algorithm.name) + " lost the order of ranks");
    }
    for (int root = 0; root < 5; ++root) {
      auto own = matrices(communicator.rank());
      communicator.reduce(own, own, root, product);
      if (communicator.rank() == root) require(own == expected, "reduce of matrices lost the order of ranks");
    }
    bool refused = false;
    try {
      communicator.all_reduce(data, product, {.algorithm = "ring"});
    } catch (const InvalidArgumentError&) {
      refused = true;
    }
    require(refused, "the ring took an operation that is not commutative");
  });
}

// The topology found in create() must be used from the first call on.
TEST_P(CommunicatorOver, NothingChosenBeforeTheRanksKnewEachOtherStays) {
  expect_ranks({.size = 3, .transport = GetParam(), .measure_costs = true}, [&](Communicator& communicator) {
    const selection::Topology& topology = situation_of(communicator);
    require(topology.setting().layout == "3", "layout " + topology.setting().layout);
    require(topology.setting().links == GetParam(), "links " + topology.setting().links);
    selection::Chooser chooser(topology);
    for (const schedule::Collective collective :
         {schedule::Collective::barrier, schedule::Collective::all_reduce}) {
      const std::uint64_t bytes = collective == schedule::Collective::barrier ? 0 : 80;
      std::vector<double> data(10, 1.0);
      const Work work = collective == schedule::Collective::barrier
                            ? communicator.barrier_async()
                            : communicator.all_reduce_async(data, ReduceOp::max);
      work.wait();
      require(work.algorithm() == chooser.choose({.collective = collective}, bytes).value().name(),
              "ran " + work.algorithm());
    }
  });
}

TEST_P(CommunicatorOver, TransportIsTheOneAskedFor) {
  expect_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& communicator) {
    require(communicator.transport_to(1 - communicator.rank()) == GetParam(), "another transport was chosen");
    require(communicator.transport_to(communicator.rank()) == "self", "a rank reaches itself by a transport");
  });
}

TEST_P(CommunicatorOver, TwoCommunicatorsSideBySide) {
  auto other_store = make_memory_store();
  expect_ranks({.size = 3, .transport = GetParam()}, [&](Communicator& one) {
    Communicator two = Communicator::create(other_store, 2 - one.rank(), 3,
                                            {.timeout = std::chrono::seconds(30), .transports = GetParam()});
    std::vector<int> a(10'000, one.rank());
    std::vector<int> b(10'000, two.rank());
    const Work first = one.all_reduce_async(a);
    const Work second = two.all_reduce_async(b, ReduceOp::max);
    second.wait();
    first.wait();
    require(a[0] == 3 && b[9'999] == 2, "two communicators mixed their messages up");
  });
}

// The messages have equal numbers, in opposite directions and between different pairs.
TEST_P(CommunicatorOver, MessagesOfDifferentLengthsCrossEachOther) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Work> sent;
      std::vector<std::vector<std::uint8_t>> out, in;
      for (int peer = 0; peer < 3; ++peer) {
        out.emplace_back(static_cast<std::size_t>(100 + 40'000 * c.rank() + peer), std::uint8_t(c.rank()));
        in.emplace_back(static_cast<std::size_t>(100 + 40'000 * peer + c.rank()));
      }
      for (int peer = 0; peer < 3; ++peer) {
        if (peer != c.rank()) sent.push_back(c.send_async(out[static_cast<std::size_t>(peer)], peer));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int peer = 0; peer < 3; ++peer) {
        if (peer != c.rank()) c.recv(in[static_cast<std::size_t>(peer)], peer);
      }
      for (Work& work : sent) work.wait();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, CommunicatorOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
