// Concurrent calls in shared memory and calls that run as schedules: several communicators and threads, ranks
// that are late, leave early, or disagree.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "conformance/shared_memory.hpp"
#include "engine/shared_memory/segment.hpp"
#include "support/cases.hpp"
#include "support/cluster.hpp"
#include "support/expected_bits.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

Reduction custom_sum(const std::string& name = "my sum") {
  const auto add = [](void* out, const void* left, const void* right, std::uint64_t count, DType) {
    for (std::uint64_t i = 0; i < count; ++i)
      static_cast<float*>(out)[i] = static_cast<const float*>(left)[i] + static_cast<const float*>(right)[i];
  };
  return Reduction::custom({.name = name, .combine = add, .commutative = true});
}

TEST(InSharedMemory, CallsOfBothKindsGoTogether) {
  for (const int size : {2, 3, 5}) {
    expect_ranks({.size = size, .transport = "shm"}, [](Communicator& c) {
      for (const std::size_t count : {std::size_t{5}, std::size_t{900}, std::size_t{30'000}}) {
        for (unsigned round = 0; round < 12; ++round) {
          std::vector<std::vector<float>> data(6, std::vector<float>(count, 1.0f));
          std::vector<float> reduced(count), gathered(count * static_cast<std::size_t>(c.size()));
          const int root = static_cast<int>(round) % c.size();
          if (c.rank() == root) std::fill(data[5].begin(), data[5].end(), static_cast<float>(c.size()));
          std::vector<Work> works;
          works.push_back(c.all_reduce_async(data[0], ReduceOp::sum, kDirect));
          works.push_back(c.all_reduce_async(data[1], custom_sum()));
          works.push_back(c.all_reduce_async(data[2], ReduceOp::sum, kDirect));
          works.push_back(c.reduce_async(data[3], reduced, root));
          works.push_back(c.gather_async(data[3], gathered, root));
          works.push_back(c.all_reduce_async(data[4], ReduceOp::sum, {.algorithm = "ring"}));
          works.push_back(c.broadcast_async(data[5], root, kDirect));
          std::shuffle(works.begin(), works.end(), std::mt19937(round * 10 + unsigned(c.rank())));
          for (const Work& work : works) work.wait();
          const auto expect = [&](const std::vector<float>& values, float expected) {
            if (std::any_of(values.begin(), values.end(), [&](float v) { return v != expected; }))
              throw std::runtime_error("wrong result beside calls of the other kind");
          };
          for (const std::size_t i : {0, 1, 2, 4, 5}) expect(data[i], static_cast<float>(c.size()));
          expect(data[3], 1.0f);
          if (c.rank() == root) expect(reduced, static_cast<float>(c.size()));
          if (c.rank() == root) expect(gathered, 1.0f);
        }
      }
    });
  }
}

TEST(InSharedMemory, AReductionWithoutANameIsOneOfTheCallersAllTheSame) {
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& c) {
    for (const bool custom : {false, true, false}) {
      std::vector<float> data(5, 2.0f);
      c.all_reduce(data, custom ? custom_sum("") : ReduceOp::sum);
      if (data[4] != 6.0f) throw std::runtime_error("wrong sum");
    }
  });
}

TEST(InSharedMemory, MoreCommunicatorsThanSlots) {
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& c) {
    std::vector<Communicator> all;
    for (std::uint32_t i = 0; i < engine::shared_memory::kCommSlots + 6; ++i)
      all.push_back(c.split(0, -c.rank()));
    std::vector<std::vector<float>> data(all.size(), std::vector<float>(2000, 1.0f));
    std::vector<Work> works;
    std::uint32_t in_memory = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t before = c.counters().messages_sent;
      all[i].barrier(kBarrier);
      in_memory += c.counters().messages_sent == before;
      works.push_back(all[i].all_reduce_async(data[i], ReduceOp::sum, kDirect));
      if (i % 5 == 4) works[i].wait();
    }
    for (const Work& work : works) work.wait();
    for (const auto& sums : data) {
      if (sums[0] != 3.0f || sums[1999] != 3.0f) throw std::runtime_error("wrong sum");
    }
    if (in_memory > engine::shared_memory::kCommSlots - 1)
      throw std::runtime_error("more communicators in shared memory than slots");
    if (in_memory < engine::shared_memory::kCommSlots / 2) throw std::runtime_error("slots are wasted");
  });
}

TEST(InSharedMemory, SlotsOfCommunicatorsThatAreGoneAreUsedAgain) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    expect_ranks({.size = 4, .transport = "shm"}, [&](Communicator& c) {
      std::mt19937 random(seed);                          // the same on all ranks
      std::mt19937 own(seed * 100 + unsigned(c.rank()));  // times at which this rank frees memory
      std::vector<Communicator> alive{c};
      std::vector<Communicator> to_drop;
      for (unsigned round = 0; round < 5 * engine::shared_memory::kCommSlots; ++round) {
        const std::size_t from = random() % alive.size();
        std::array<int, 4> colors;
        for (int& color : colors) color = static_cast<int>(random() % 4) - 1;
        Communicator made;
        if (alive[from].valid())
          made = alive[from].split(colors[static_cast<std::size_t>(c.rank())], -c.rank());
        alive.push_back(std::move(made));
        const Communicator& used = alive[random() % 3 == 0 ? random() % alive.size() : alive.size() - 1];
        const std::size_t count = std::array{1, 900, 30'000}[random() % 3];
        if (used.valid() && used.size() > 1) {
          std::vector<float> data(count, 1.0f);
          const std::uint64_t before = c.counters().messages_sent;
          Communicator(used).all_reduce(data, ReduceOp::sum, kDirect);
          if (c.counters().messages_sent != before) throw std::runtime_error("no slot is left");
          const auto sum = static_cast<float>(used.size());
          if (std::ranges::count(data, sum) != static_cast<std::ptrdiff_t>(count))
            throw std::runtime_error("wrong sum");
        }
        if (alive.size() > 6) {
          const std::size_t victim = 1 + random() % (alive.size() - 1);
          to_drop.push_back(std::move(alive[victim]));
          alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(victim));
        }
        if (own() % 4 == 0) to_drop.clear();
      }
    });
  }
}

TEST(InSharedMemory, CommunicatorsThatOverlapAtOnce) {
  expect_ranks({.size = 4, .transport = "shm"}, [](Communicator& c) {
    Communicator parity = c.split(c.rank() % 2), halves = c.split(c.rank() / 2, -c.rank());
    for (int round = 0; round < 20; ++round) {
      const std::size_t count = round % 2 == 0 ? 100 : 20'000;
      const Memory memory = region(3 * count * sizeof(float));
      auto* const data = reinterpret_cast<float*>(memory.get());
      std::fill_n(data, 3 * count, static_cast<float>(1 + c.rank()));
      std::vector<Work> works;
      Communicator* const all[] = {&c, &parity, &halves};
      for (std::size_t i = 0; i < 3; ++i)
        works.push_back(all[i]->all_reduce_async(Buffer(data + i * count, count, DType::float32),
                                                 ReduceOp::sum, kDirect));
      for (std::size_t i = 3; i-- > 0;) works[i].wait();
      const int sums[] = {10, c.rank() % 2 == 0 ? 4 : 6, c.rank() < 2 ? 3 : 7};
      for (std::size_t i = 0; i < 3 * count; ++i) {
        if (data[i] != static_cast<float>(sums[i / count])) throw std::runtime_error("wrong sum");
      }
    }
  });
}

TEST(InSharedMemory, ThreadsWithLibraryMemoryOnCommunicatorsOfTheirOwn) {
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& c) {
    Communicator own[] = {c.split(0), c.split(0)};
    in_threads(2, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 40; ++round) {
        const std::size_t count = 1 + random() % (round % 8 == 0 ? 200'000 : 3000);
        const Memory memory = round % 3 == 0 ? region(count * sizeof(int)) : arena_block(count * sizeof(int));
        auto* const data = reinterpret_cast<int*>(memory.get());
        std::fill_n(data, count, round + t);
        own[t].all_reduce(Buffer(data, count, DType::int32), ReduceOp::sum, kDirect);
        if (std::any_of(data, data + count, [&](int value) { return value != 3 * (round + t); }))
          throw std::runtime_error("wrong sum");
      }
    });
  });
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(InSharedMemory, WhoWaitsForALateRankSleepsAndIsWoken) {
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& c) {
    for (const std::size_t count : {std::size_t{4}, std::size_t{50'000}}) {
      std::vector<int> data(count, 1);
      c.barrier();
      if (c.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
      const double before = thread_seconds();
      c.all_reduce(data, ReduceOp::sum, kDirect);
      if (thread_seconds() - before > 0.1) throw std::runtime_error("does not sleep while it waits");
      if (data[0] != 3 || data[count - 1] != 3) throw std::runtime_error("wrong sum");
    }
  });
}

TEST(InSharedMemory, ACallThatWaitsForItsTurnDoesNotTimeOut) {
  expect_ranks({.size = 2, .transport = "shm", .timeout = milliseconds(1000)}, [](Communicator& c) {
    std::vector<std::vector<int>> data(8, std::vector<int>(2000, 1));
    std::vector<Work> works;
    for (auto& one : data) {
      if (c.rank() == 1) std::this_thread::sleep_for(milliseconds(200));
      works.push_back(c.all_reduce_async(one, ReduceOp::sum, kDirect));
    }
    for (const Work& work : works) work.wait();
  });
}

TEST(InSharedMemory, MemoryIsFreedAndMadeAgainBetweenCalls) {
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& c) {
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
      const std::size_t count = 2000 + random() % 100'000;
      const bool is_private = random() % 5 == static_cast<unsigned>(c.rank());
      const std::size_t offset = 64 * (static_cast<std::size_t>(c.rank() + round) % 3);
      const Memory memory =
          is_private ? private_memory(count * sizeof(int)) : region(count * sizeof(int), offset);
      auto* const data = reinterpret_cast<int*>(memory.get());
      std::fill_n(data, count, round);
      c.all_reduce(Buffer(data, count, DType::int32), ReduceOp::sum, kDirect);
      if (std::any_of(data, data + count, [&](int value) { return value != 3 * round; }))
        throw std::runtime_error("wrong sum in round " + std::to_string(round));
    }
  });
}

// A rank that is done frees its memory and leaves at once, while other ranks still read its data.
TEST(InSharedMemory, ARankLeavesWhileOthersRead) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{1000}, std::size_t{700'000}}) {
    for (const bool shared : {false, true}) {
      for (int round = 0; round < 3; ++round) {
        expect_ranks({.size = 3, .transport = "shm"}, [&](Communicator& c) {
          const Memory memory = shared ? region(count * 4) : private_memory(count * 4);
          auto* const data = reinterpret_cast<int*>(memory.get());
          std::fill_n(data, count, c.rank() == round ? 7 : 0);
          if (c.rank() != round) std::this_thread::sleep_for(milliseconds(2 * c.rank()));
          c.broadcast(Buffer(data, count, DType::int32), round, kDirect);
          if (std::any_of(data, data + count, [](int value) { return value != 7; }))
            throw std::runtime_error("wrong data from a rank that left");
          std::fill_n(data, count, -1);
        });
      }
    }
  }
}

// A running rank sums for the ranks that wait for the core. These find the call done, perhaps with freed
// memory.
TEST(InSharedMemory, RanksThatShareACoreSumForEachOther) {
  const FewCores one_core(1);
  const algorithms::ConfiguredAlgorithm direct =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, kDirect.algorithm).value();
  for (const int size : {2, 3, 5}) {
    for (const std::uint64_t count : {257u, 1025u, 30'001u, 262'144u, 262'145u}) {
      const auto expected = expected_bits(direct, size, count);
      const std::size_t bytes = count * sizeof(float);
      expect_ranks({.size = size, .transport = "shm"}, [&](Communicator& c) {
        const std::vector<float> numbers = awkward_numbers(c.rank(), count);
        const auto expect = [&](const Memory& sum, const char* what) {
          if (std::memcmp(sum.get(), expected.data(), bytes) != 0) throw std::runtime_error(what);
        };
        std::mt19937 random(static_cast<unsigned>(c.rank()));
        for (int round = 0; round < 12; ++round) {
          const Memory in = region(bytes), out = arena_block(bytes), later = arena_block(bytes);
          std::memcpy(in.get(), numbers.data(), bytes);
          std::memcpy(later.get(), numbers.data(), bytes);
          if (random() % 4 == 0) std::this_thread::sleep_for(milliseconds(random() % 3));
          const Buffer sums(in.get(), count, DType::float32);
          c.all_reduce(ConstBuffer(in.get(), count, DType::float32), Buffer(out.get(), count, DType::float32),
                       ReduceOp::sum, kDirect);
          const Work work =
              c.all_reduce_async(Buffer(later.get(), count, DType::float32), ReduceOp::sum, kDirect);
          c.all_reduce(sums, ReduceOp::sum, kDirect);
          expect(out, "out of place: other bits than the schedule's");
          expect(in, "in place: other bits than the schedule's");
          work.wait();
          expect(later, "asynchronously: other bits than the schedule's");
        }
      });
    }
  }
}

// A call that other ranks complete does not delay this rank's next call, whichever code path that one takes.
TEST(InSharedMemory, CallsOfAllKindsOnFewCores) {
  for (const int size : {2, 3, 4}) {
    const FewCores cores(size - 1);
    expect_ranks({.size = size, .transport = "shm"}, [](Communicator& c) {
      std::mt19937 random(static_cast<unsigned>(c.rank()));
      constexpr std::uint64_t kCounts[] = {65'536, 400'000, 20'000, 16'000};
      std::vector<Memory> memory;
      for (const std::uint64_t count : kCounts) memory.push_back(arena_block(count * sizeof(float)));
      memory.back() = private_memory(kCounts[3] * sizeof(float));
      for (int round = 0; round < 60; ++round) {
        std::vector<Work> works;
        for (std::size_t i = 0; i < std::size(kCounts); ++i) {
          // Each round starts with a different call.
          const std::size_t at = (i + static_cast<std::size_t>(round)) % std::size(kCounts);
          auto* const data = reinterpret_cast<float*>(memory[at].get());
          std::fill_n(data, kCounts[at], 1.0f);
          if (random() % 8 == 0) std::this_thread::sleep_for(milliseconds(1));
          works.push_back(
              c.all_reduce_async(Buffer(data, kCounts[at], DType::float32), ReduceOp::sum, kDirect));
          if (random() % 3 == 0) works.back().wait();
        }
        for (const Work& work : works) work.wait();
        for (std::size_t at = 0; at < std::size(kCounts); ++at) {
          const auto* const data = reinterpret_cast<const float*>(memory[at].get());
          const auto sum = static_cast<float>(c.size());
          if (std::any_of(data, data + kCounts[at], [&](float value) { return value != sum; }))
            throw std::runtime_error("wrong sum");
        }
      }
    });
  }
}

TEST(InSharedMemory, RanksThatDisagreeLearnOfItSoon) {
  using Body = std::function<void(Communicator&, std::vector<float>&)>;
  const Body in_memory = [](auto& c, auto& data) { c.all_reduce(data, ReduceOp::sum, kDirect); };
  struct Other {
    Body call;
    std::vector<std::string> said;
  };
  const auto root = [](int root) {
    return [root](Communicator& c, std::vector<float>& data) { c.reduce(data, data, root); };
  };
  const Other others[] = {
      {[](auto& c, auto& data) { c.all_reduce(data, custom_sum()); }, {"custom"}},
      {[](auto& c, auto& data) { c.all_reduce(data, ReduceOp::sum, {.algorithm = "ring"}); }, {"ring"}},
      {root(0), {"reduce("}},
      {root(1), {"reduce("}},
      {[](auto& c, auto& data) {
         std::vector<float> all(data.size() * static_cast<std::size_t>(c.size()));
         c.gather(data, all, 1);
       },
       {"gather("}},
      {[](auto& c, auto&) { c.barrier(kBarrier); }, {"barrier"}},
      {[](auto& c, auto& data) {
         c.all_reduce(Buffer(data.data(), data.size() - 1, DType::float32), ReduceOp::sum, kDirect);
       },
       {"sum of"}},
  };
  for (const int size : {2, 4}) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{50'000}}) {
      for (const Other& other : others) {
        auto said = other.said;
        said.insert(said.end(), {"rank 1 called", "all_reduce(sum of " + std::to_string(count)});
        for (const bool odd_is_in_memory : {false, true}) {
          if (size == 4 && odd_is_in_memory) continue;
          expect_mismatch(
              "shm", size,
              [&](Communicator& c) {
                std::vector<float> data(count);
                ((c.rank() == 1) == odd_is_in_memory ? in_memory : other.call)(c, data);
              },
              said);
        }
      }
    }
  }
}

// A rank that calls after its peers have sent pings.
TEST(InSharedMemory, ALateRankThatDisagreesIsFoundOutSoon) {
  expect_mismatch("shm", 3,
                  [](Communicator& c) {
                    std::vector<float> data(10);
                    if (c.rank() != 1) return c.all_reduce(data, ReduceOp::sum, kDirect);
                    std::this_thread::sleep_for(milliseconds(350));
                    c.reduce(data, data, 1);
                  },
                  {"rank 1 called reduce(", "all_reduce("});
}

TEST(InSharedMemory, ADisagreementBehindManyCallsIsFoundOutSoon) {
  for (const bool odd_is_ahead : {false, true}) {
    expect_mismatch(
        "shm", 3,
        [&](Communicator& c) {
          std::vector<std::vector<float>> data(200, std::vector<float>(2000));
          std::vector<Work> works;
          for (std::size_t i = 0; i < data.size(); ++i) {
            const bool odd = c.rank() == 1 && i == 99;
            works.push_back(c.all_reduce_async(data[i], odd ? ReduceOp::max : ReduceOp::sum, kDirect));
            if (odd && !odd_is_ahead) break;
          }
          for (const Work& work : works) work.wait();
        },
        {"call 101, ", "max of 2000", "sum of 2000"});
  }
}

// A rank that is far ahead, in calls in which it only receives, still has the signature of its first call.
TEST(InSharedMemory, ADisagreementInFrontOfManyCallsIsFoundOutSoon) {
  expect_mismatch("shm", 2,
                  [](Communicator& c) {
                    std::vector<float> data(10);
                    if (c.rank() == 0) return c.all_reduce(data, ReduceOp::sum, kDirect);
                    std::vector<std::vector<float>> sums(100, data);
                    std::vector<Work> works;
                    for (auto& sum : sums) works.push_back(c.reduce_async(sum, sum, 1));
                    for (const Work& work : works) work.wait();
                  },
                  {"rank 1 called reduce(", "all_reduce("});
}

}  // namespace
}  // namespace kolo::test
