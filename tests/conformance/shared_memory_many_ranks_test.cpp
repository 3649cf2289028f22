// Many ranks on few cores: right results, and turns and wake-ups in proportion to the ranks.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/shared_memory.hpp"
#include "support/cluster.hpp"
#include "support/expected_bits.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

// Sizes that travel with the descriptor, in one piece and in several; each call after the first finds the
// segments as the call before left them.
TEST(InSharedMemory, ManyRanksOnACoreGetTheBitsOfTheSchedule) {
  constexpr int kRanks = 24;
  const FewCores one_core(1);
  const algorithms::ConfiguredAlgorithm direct =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, kDirect.algorithm).value();
  const std::vector<std::uint64_t> counts = {1, 8, 9, 1024, 1025, 4097, 100'003, 7};
  std::vector<std::vector<std::uint32_t>> expected;
  for (const std::uint64_t count : counts) expected.push_back(expected_bits(direct, kRanks, count));
  expect_ranks({.size = kRanks, .transport = "shm"}, [&](Communicator& c) {
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        for (const bool is_shared : {false, true}) {
          const std::size_t bytes = counts[i] * sizeof(float);
          const Memory memory = is_shared ? arena_block(bytes) : private_memory(bytes);
          std::memcpy(memory.get(), awkward_numbers(c.rank(), counts[i]).data(), bytes);
          c.all_reduce(Buffer(memory.get(), counts[i], DType::float32), ReduceOp::sum, kDirect);
          if (std::memcmp(memory.get(), expected[i].data(), bytes) != 0)
            throw std::runtime_error("other bits than the schedule's: " + std::to_string(counts[i]) +
                                     " elements");
        }
      }
    }
  });
}

// One rank sums for all of them. The ranks that do not sum read no other rank's signature.
TEST(InSharedMemory, ManyRanksThatDisagreeLearnOfItSoon) {
  constexpr int kRanks = 9;
  const FewCores one_core(1);
  for (const int odd : {0, 4}) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{50'000}}) {
      expect_mismatch("shm", kRanks,
                      [&](Communicator& c) {
                        std::vector<float> data(c.rank() == odd ? count - 1 : count);
                        c.all_reduce(data, ReduceOp::sum, kDirect);
                      },
                      {"sum of " + std::to_string(count), "sum of " + std::to_string(count - 1)});
    }
  }
}

// The ranks come one after the other, and those that came before sleep. If each rank that comes woke all of
// them, as many ranks would wake up as there are pairs.
TEST(InSharedMemory, ARankThatComesWakesNoRankThatStillWaitsForOthers) {
  constexpr int kRanks = 24;
  constexpr int kCalls = 5;
  const FewCores one_core(1);
  std::atomic<long> sleeps{0};
  std::atomic<long> most{0};
  expect_ranks({.size = kRanks, .transport = "shm"}, [&](Communicator& c) {
    for (const std::size_t count : {std::size_t{4}, std::size_t{1000}, std::size_t{20'000}}) {
      std::vector<int> data(count);
      const auto sleeps_so_far = [] {
        rusage usage{};
        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nvcsw;
      };
      for (int call = 0; call < kCalls; ++call) {
        std::fill(data.begin(), data.end(), 1);
        c.barrier();
        std::this_thread::sleep_for(milliseconds(2 * c.rank()));
        const long before = sleeps_so_far();
        const auto begin = std::chrono::steady_clock::now();
        c.all_reduce(data, ReduceOp::sum, kDirect);
        const auto ticks = (std::chrono::steady_clock::now() - begin) / milliseconds(10);
        sleeps += sleeps_so_far() - before;
        most += 5 + ticks;  // a rank that waits looks after its peers now and then
        if (data.front() != kRanks || data.back() != kRanks) throw std::runtime_error("wrong sum");
      }
    }
  });
  EXPECT_LE(sleeps, most);
}

}  // namespace
}  // namespace kolo::test
