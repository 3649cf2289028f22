// Allocations of a call fail, one at a time, on one rank: all ranks soon get an error of kolo's.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"
#include "unit/allocations/operator_new.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Body = std::function<void(Communicator&)>;

constexpr int kCulprit = 1;

/// In memory that the ranks' processes share with this one.
std::atomic<bool>& has_failed() {
  static void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "mmap");
  static auto* const flag = new (shared) std::atomic<bool>(false);
  return *flag;
}

class NoMemory : public testing::TestWithParam<const char*> {
 protected:
  /// Lets the n-th allocation fail, for every n from 1 on (or every `step`-th) until `call` has not so many.
  /// `before` is not part of the call. Without a call, create() is tried.
  static void expect_errors(std::uint64_t step, const Body& call, const Body& before = {}) {
    bool is_over = false;
    for (std::uint64_t n = 1; !is_over; n += step) {
      has_failed() = false;
      const auto begin = [&](int rank) {
        if (rank == kCulprit) fail_allocation(n, has_failed());
      };
      // To choose by costs would take thousands of allocations.
      ProcessOptions options{
          .size = 2, .transports = GetParam(), .timeout = 60s, .settings = {{"KOLO_ALGORITHM", "direct"}}};
      if (!call) options.prepare = begin;
      Processes processes(options, [&](Communicator& c) {
        if (before) before(c);
        if (call) begin(c.rank());
        if (call) call(c);
        fail_allocation(0, has_failed());
        if (!before) c.barrier();  // the other rank may have had all it needed when the allocation failed
      });
      const auto ends = processes.collect(10s);
      is_over = !has_failed();
      for (const RankEnd& end : ends) {
        const bool is_error = end.error.find("Error: ") != std::string::npos;
        EXPECT_TRUE(end.code == 0 || (end.code == 1 && is_error && !is_over))
            << "allocation " << n << ": signal " << end.signal << ", " << end.error;
      }
      // The other rank shrinks without the culprit.
      EXPECT_TRUE(before || ends[0].code == ends[1].code)
          << "allocation " << n << ": " << ends[0].error << ends[1].error;
    }
  }
};

TEST_P(NoMemory, ForAShortSum) {
  std::vector<float> data(2);
  expect_errors(1, [&](Communicator& c) { c.all_reduce(data); });
}

TEST_P(NoMemory, ForALongSum) {
  std::vector<float> data(1 << 18);
  expect_errors(1, [&](Communicator& c) { c.all_reduce(data); });
}

TEST_P(NoMemory, ForMessages) {
  std::vector<float> data(1 << 20);
  expect_errors(1, [&](Communicator& c) {
    if (c.rank() == 0) {
      c.recv(data, kCulprit);
      c.send(data, kCulprit);
    } else {
      c.send(data, 0);
      c.recv_any(data);
    }
  });
}

TEST_P(NoMemory, ForASplit) {
  expect_errors(3, [](Communicator& c) { c.split(0).barrier(); });
}

TEST_P(NoMemory, ForASubgroup) {
  constexpr std::array<int, 2> kRanks{1, 0};
  expect_errors(7, [&](Communicator& c) { c.subgroup(kRanks).barrier(); });
}

TEST_P(NoMemory, ForAGroup) {
  constexpr std::array<int, 2> kRanks{1, 0};
  expect_errors(7, [&](Communicator& c) { c.create_group(kRanks).barrier(); });
}

TEST_P(NoMemory, ToMeet) {
  expect_errors(11, {});
}

TEST_P(NoMemory, ToShrink) {
  const auto fail = [](Communicator& c) {
    if (c.rank() == 0) c.abort("to shrink");
    try {
      c.barrier();
    } catch (const AbortedError&) {
    }
  };
  expect_errors(
      7, [](Communicator& c) { c.shrink().barrier(); }, fail);
}

INSTANTIATE_TEST_SUITE_P(, NoMemory, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
