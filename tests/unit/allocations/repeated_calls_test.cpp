// A call that a program repeats allocates nothing: CONTRIBUTING promises it. Counts each operator new of the
// process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/transports.hpp"
#include "unit/allocations/operator_new.hpp"

namespace kolo::test {
namespace {

class RepeatedCalls : public testing::TestWithParam<const char*> {
 protected:
  /// Runs rounds of `calls` calls on two ranks until the whole process allocates nothing in one of them, at
  /// most 30 rounds; returns the allocations of the last round. The first rounds allocate: plans are made,
  /// queues and pools grow to what is under way at once.
  template <typename Call>
  std::uint64_t allocations_of(int calls, const Call& call) {
    std::atomic<std::uint64_t> counted{1};
    expect_ranks({.size = 2, .transport = GetParam()}, [&](Communicator& communicator) {
      for (int round = 0; round < 30 && counted > 0; ++round) {
        communicator.barrier();
        const std::uint64_t before = allocations();
        for (int i = 0; i < calls; ++i) call(communicator);
        communicator.barrier();
        if (communicator.rank() == 0) counted = allocations() - before;
        communicator.barrier();
      }
    });
    return counted;
  }
};

/// Memory of each rank's own, alive over all calls.
std::vector<std::vector<float>> buffers(std::size_t count) {
  return {std::vector<float>(count), std::vector<float>(count)};
}

TEST_P(RepeatedCalls, SmallSums) {
  auto data = buffers(2);
  EXPECT_EQ(
      allocations_of(1000,
                     [&](Communicator& communicator) {
                       communicator.all_reduce(Buffer(data[static_cast<std::size_t>(communicator.rank())]));
                     }),
      0u);
}

TEST_P(RepeatedCalls, LabelledSums) {
  auto data = buffers(2);
  std::uint32_t numbers[2] = {};
  EXPECT_EQ(allocations_of(1000,
                           [&](Communicator& communicator) {
                             const auto rank = static_cast<std::size_t>(communicator.rank());
                             communicator.all_reduce(
                                 Buffer(data[rank]), ReduceOp::sum,
                                 {.label = "the sums of many steps", .label_number = ++numbers[rank]});
                           }),
            0u);
}

TEST_P(RepeatedCalls, ManySumsAtOnce) {
  auto data = buffers(200 * 1024);
  std::vector<std::vector<Work>> works(2, std::vector<Work>(200));
  EXPECT_EQ(allocations_of(10,
                           [&](Communicator& communicator) {
                             const auto rank = static_cast<std::size_t>(communicator.rank());
                             for (std::size_t i = 0; i < 200; ++i)
                               works[rank][i] = communicator.all_reduce_async(
                                   Buffer(std::span(data[rank]).subspan(i * 1024, 1024)));
                             for (Work& work : works[rank]) work.wait();
                           }),
            0u);
}

TEST_P(RepeatedCalls, LargeSums) {
  auto data = buffers(1 << 18);
  EXPECT_EQ(
      allocations_of(30,
                     [&](Communicator& communicator) {
                       communicator.all_reduce(Buffer(data[static_cast<std::size_t>(communicator.rank())]));
                     }),
      0u);
}

TEST_P(RepeatedCalls, Messages) {
  auto data = buffers(300);
  EXPECT_EQ(allocations_of(300,
                           [&](Communicator& communicator) {
                             auto& own = data[static_cast<std::size_t>(communicator.rank())];
                             if (communicator.rank() == 0) {
                               communicator.send(Buffer(own), 1);
                               communicator.recv(Buffer(own), 1);
                             } else {
                               communicator.recv(Buffer(own), 0);
                               communicator.send(Buffer(own), 0);
                             }
                           }),
            0u);
}

TEST_P(RepeatedCalls, Lists) {
  // In no order, so that they are sorted to find overlaps.
  std::vector<std::vector<Buffer>> lists(2);
  auto parts = buffers(30'000), own = buffers(10'000);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::span memory(parts[rank]);
    lists[rank] = {Buffer(memory.subspan(15'000, 10'000)), Buffer(memory.subspan(1, 10'000))};
  }
  const std::vector<std::vector<ConstBuffer>> inputs = {{lists[0].begin(), lists[0].end()},
                                                        {lists[1].begin(), lists[1].end()}};
  EXPECT_EQ(
      allocations_of(100,
                     [&](Communicator& communicator) {
                       const auto rank = static_cast<std::size_t>(communicator.rank());
                       communicator.all_gather(own[rank], lists[rank]);
                       communicator.all_gather_async(own[rank], lists[rank], {.algorithm = "ring"}).wait();
                       communicator.reduce_scatter(inputs[rank], Buffer(own[rank]));
                     }),
      0u);
}

TEST_P(RepeatedCalls, Batches) {
  auto data = buffers(100 * 20 + 40'000);
  std::vector<std::optional<CallBatch>> batches(2);
  EXPECT_EQ(allocations_of(50,
                           [&](Communicator& communicator) {
                             const auto rank = static_cast<std::size_t>(communicator.rank());
                             if (!batches[rank]) {
                               const std::span memory(data[rank]);
                               batches[rank].emplace(communicator);
                               for (std::size_t i = 0; i < 100; ++i)
                                 batches[rank]->all_reduce(memory.subspan(i * 20, 20));
                               batches[rank]->all_reduce(memory.subspan(2000), ReduceOp::max);
                             }
                             batches[rank]->run();
                           }),
            0u);
}

INSTANTIATE_TEST_SUITE_P(, RepeatedCalls, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
