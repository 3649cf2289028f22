// A call begins after what its stream holds, and work after order() sees its result. Each test of an order is
// run once more with a driver that forgets it, and must notice.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "device/fake_cuda.hpp"
#include "device/memory.hpp"
#include "support/cluster.hpp"

namespace kolo::test {
namespace {

/// Sums what a late kernel writes; the next kernel writes over it.
std::vector<std::string> sum_behind_kernels(std::size_t count) {
  return run_ranks(
             {.size = 2, .transport = "shm"},
             [count](Communicator& communicator) {
               const OwnStream stream;
               const DeviceFloats data(count);
               for (int round = 1; round <= 5; ++round) {
                 std::vector<float> ones(count, static_cast<float>(round * (1 + communicator.rank())));
                 fake_cuda_write_on(stream.handle(), data.address, ones.data(), count * sizeof(float), 3000);
                 const Work work =
                     communicator.all_reduce_async(data.buffer(), ReduceOp::sum, {.stream = stream.handle()});
                 work.order(stream.handle());
                 std::vector<float> seen(count, -1);
                 fake_cuda_read_on(stream.handle(), seen.data(), data.address, count * sizeof(float));
                 stream.synchronize();
                 for (const float value : seen)
                   if (value != static_cast<float>(3 * round))
                     throw std::runtime_error("a wrong sum: " + std::to_string(value));
               }
             })
      .errors;
}

constexpr std::size_t kCounts[] = {100, 2'500'000};

TEST(DeviceStreams, OrderCallsAmongKernels) {
  fake_cuda_delay(500, 3);
  for (const std::size_t count : kCounts)
    for (const std::string& error : sum_behind_kernels(count)) EXPECT_EQ(error, "");
  fake_cuda_delay(0, 1);
}

// What this shows as wrong sums is a race.
#ifndef __SANITIZE_THREAD__
TEST(DeviceStreams, AreInNoOrderWithoutEvents) {
  fake_cuda_delay(500, 3);
  fake_cuda_forget_records(true);
  for (const std::size_t count : kCounts) {
    const auto errors = sum_behind_kernels(count);
    EXPECT_NE(errors[0] + errors[1], "") << "events that are not recorded make no difference";
  }
  fake_cuda_forget_records(false);
  fake_cuda_delay(0, 1);
}
#endif

TEST(DeviceStreams, NothingIsLeftBehind) {
  const FakeCudaCounts before = fake_cuda_counts();
  expect_ranks({.size = 3, .transport = "shm"}, [](Communicator& communicator) {
    const DeviceFloats data(1000);
    for (std::size_t i = 0; i < data.count; ++i) data.values[i] = 1;
    communicator.all_reduce(data.buffer());
    Communicator half = communicator.split(communicator.rank() % 2);
    half.all_reduce(data.buffer());
    EXPECT_EQ(data.values[999], static_cast<float>(3 * half.size()));
  });
  const FakeCudaCounts after = fake_cuda_counts();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.regions, before.regions);
  EXPECT_EQ(after.contexts, before.contexts);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(fake_cuda_unregistered_copies(), 0);
}

}  // namespace
}  // namespace kolo::test
