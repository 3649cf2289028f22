// C programs' calls on a device's memory: kolo_buffer's device, kolo_call's stream, kolo_order().
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "device/fake_cuda.hpp"
#include "device/memory.hpp"
#include "kolo/kolo.h"

namespace kolo::test {
namespace {

constexpr int kRanks = 2;
constexpr std::uint64_t kCount = 1000;

#define EXPECT_OK(call) EXPECT_EQ(call, KOLO_OK) << kolo_error_message()

/// Each rank is a thread, as which `program` runs.
void run_in_c(void (*program)(kolo_communicator* group, int rank)) {
  kolo_store* store = nullptr;
  EXPECT_OK(kolo_memory_store(&store));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([=] {
      kolo_options options = {};
      options.size = sizeof options;
      options.transports = "shm";
      kolo_communicator* group = nullptr;
      EXPECT_OK(kolo_create_in(store, rank, kRanks, &options, &group));
      program(group, rank);
      EXPECT_OK(kolo_destroy(group));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(kolo_release(store));
}

kolo_call sum_of(const kolo_buffer& buffer, void* stream = nullptr) {
  kolo_call call = {};
  call.size = sizeof call;
  call.collective = KOLO_ALL_REDUCE;
  call.op = KOLO_SUM;
  call.in = call.out = buffer;
  call.stream = stream;
  return call;
}

TEST(DevicesInC, CallsAreOrderedAmongKernels) {
  fake_cuda_delay(500, 3);
  run_in_c([](kolo_communicator* group, int rank) {
    const OwnStream stream;
    const DeviceFloats data(kCount);
    for (int round = 1; round <= 5; ++round) {
      const std::vector<float> mine(kCount, static_cast<float>(round * (1 + rank)));
      fake_cuda_write_on(stream.handle(), data.address, mine.data(), kCount * sizeof(float), 3000);
      const kolo_call call = sum_of({data.address, kCount, KOLO_FLOAT32, KOLO_CUDA, 0}, stream.handle());
      kolo_work* work = nullptr;
      EXPECT_OK(kolo_start(group, &call, &work));
      EXPECT_OK(kolo_order(work, stream.handle()));
      std::vector<float> seen(kCount, -1);
      fake_cuda_read_on(stream.handle(), seen.data(), data.address, kCount * sizeof(float));
      stream.synchronize();
      EXPECT_EQ(seen, std::vector<float>(kCount, static_cast<float>(3 * round)));
      EXPECT_OK(kolo_wait(work));
    }
  });
  fake_cuda_delay(0, 1);
}

TEST(DevicesInC, MessagesAreOrderedAmongKernels) {
  run_in_c([](kolo_communicator* group, int rank) {
    const OwnStream stream;
    const DeviceFloats data(kCount);
    const std::vector<float> mine(kCount, 7);
    if (rank == 0)
      fake_cuda_write_on(stream.handle(), data.address, mine.data(), kCount * sizeof(float), 3000);
    kolo_call call = {};
    call.size = sizeof call;
    call.collective = rank == 0 ? KOLO_SEND : KOLO_RECV;
    call.in = call.out = {data.address, kCount, KOLO_FLOAT32, KOLO_CUDA, 0};
    call.peer = 1 - rank;
    call.stream = stream.handle();
    EXPECT_OK(kolo_start(group, &call, nullptr));
    EXPECT_EQ(data.values[kCount - 1], 7);
  });
}

TEST(DevicesInC, WrongOnesAreRefused) {
  run_in_c([](kolo_communicator* group, int) {
    const DeviceFloats data(kCount);
    const auto expect_refusal = [&](const kolo_call& call, const std::string& text) {
      EXPECT_NE(kolo_start(group, &call, nullptr), KOLO_OK);
      EXPECT_NE(std::string(kolo_error_message()).find(text), std::string::npos) << kolo_error_message();
    };
    expect_refusal(sum_of({data.address, kCount, KOLO_FLOAT32, 2, 0}), "kolo_device_kind");
    expect_refusal(sum_of({data.address, kCount, KOLO_FLOAT32, KOLO_CUDA, -1}), "there is no device -1");
    std::vector<float> host(kCount);
    expect_refusal(sum_of({host.data(), kCount, KOLO_FLOAT32, KOLO_HOST, 0}, &host), "`stream`");
    // The ranks have agreed on no call yet, so the next one is as good as ever.
    for (std::size_t i = 0; i < kCount; ++i) data.values[i] = 1;
    const kolo_call good = sum_of({data.address, kCount, KOLO_FLOAT32, KOLO_CUDA, 0});
    EXPECT_OK(kolo_start(group, &good, nullptr));
    EXPECT_EQ(data.values[kCount - 1], kRanks);
    kolo_barrier(group, nullptr);  // the first rank behind it ends the calls of the others
    expect_refusal(sum_of({data.address, kCount, KOLO_FLOAT32, KOLO_CUDA, 7}), "there is no cuda:7");
  });
}

#undef EXPECT_OK

}  // namespace
}  // namespace kolo::test
