// What goes wrong with a device is an error on all ranks, which names the rank, the call and the device, and
// nothing is left behind.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "device/fake_cuda.hpp"
#include "device/fake_nccl.hpp"
#include "device/memory.hpp"
#include "support/cluster.hpp"

namespace kolo::test {
namespace {

constexpr int kLaunchFailed = 719;

Buffer floats(void* memory, std::uint64_t count, Device device = kFirstDevice) {
  return {memory, count, DType::float32, device};
}

/// What the ranks say where each calls with what `buffer_of` gives it.
std::vector<std::string> errors_of(const std::function<Buffer(int rank)>& buffer_of,
                                   const CallOptions& options = {}) {
  return run_ranks({.size = 2, .transport = "shm", .timeout = std::chrono::seconds(5)},
                   [&](Communicator& communicator) {
                     communicator.all_reduce(buffer_of(communicator.rank()), ReduceOp::sum, options);
                   })
      .errors;
}

class WrongMemory : public testing::Test {
 protected:
  void SetUp() override {
    for (void*& one : good_) one = fake_cuda_allocate(0, 4000);
  }
  void TearDown() override {
    for (void* const one : good_) fake_cuda_free(one);
  }
  /// Rank 1 has the wrong buffer.
  void expect_refusal(const Buffer& wrong, const std::string& text, const CallOptions& options = {}) {
    const auto errors =
        errors_of([&](int rank) { return rank == 1 ? wrong : floats(good_[0], 1000); }, options);
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
      EXPECT_NE(error.find(text), std::string::npos) << error;
      EXPECT_NE(error.find("all_reduce"), std::string::npos) << error;
    }
  }

  void* good_[2] = {};
};

TEST_F(WrongMemory, IsRefusedOnAllRanks) {
  std::vector<float> host(1000);
  expect_refusal(floats(host.data(), 1000), "`in` is no memory of cuda:0");
  expect_refusal(floats(good_[1], 1000, {DeviceKind::cuda, 1}),
                 "`in` is in the memory of cuda:0, not of cuda:1");
  expect_refusal(floats(good_[1], 1000, {DeviceKind::cuda, 7}),
                 "there is no cuda:7: this process has 2 devices");
  expect_refusal(floats(good_[1], 1200), "`in` has 4800 bytes, of which 4000 are in its allocation");
  void* const managed = fake_cuda_allocate_managed(0, 4000);
  expect_refusal(floats(managed, 1000), "`in` is managed memory");
  fake_cuda_free(managed);
  expect_refusal(floats(managed, 1000), "`in` is no memory of cuda:0");
}

TEST_F(WrongMemory, IsAWrongArgument) {
  expect_ranks({.size = 2, .transport = "shm"}, [&](Communicator& communicator) {
    const Device device{DeviceKind::cuda, static_cast<std::int16_t>(communicator.rank() == 1 ? 7 : 0)};
    EXPECT_THROW(communicator.all_reduce(floats(good_[0], 1000, device)), InvalidArgumentError);
  });
}

TEST_F(WrongMemory, OfTheHostAmongThatOfDevicesIsAMismatch) {
  std::vector<float> host(1000);
  const auto errors = errors_of([&](int rank) { return rank == 1 ? Buffer(host) : floats(good_[0], 1000); });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 0 called all_reduce(sum of 1000 float32, on a device)"), std::string::npos)
        << error;
    EXPECT_NE(error.find("rank 1 called all_reduce(sum of 1000 float32, "), std::string::npos) << error;
  }
}

TEST_F(WrongMemory, DifferentCountsAreAMismatch) {
  const auto errors = errors_of([&](int rank) { return floats(good_[rank], rank == 1 ? 999 : 1000); });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("sum of 1000 float32, on a device"), std::string::npos) << error;
    EXPECT_NE(error.find("sum of 999 float32, on a device"), std::string::npos) << error;
  }
}

/// Each call of the driver fails in turn, and all after it.
TEST(DeviceFailures, EachIsAnErrorOnAllRanksAndLeavesNothing) {
  const FakeCudaCounts before = fake_cuda_counts();
  bool has_failed = true;
  int number = 1;
  for (; has_failed; ++number) {
    ASSERT_LT(number, 500);
    const auto errors = run_ranks({.size = 2, .transport = "shm", .timeout = std::chrono::seconds(10)},
                                  [&](Communicator& communicator) {
                                    void* const data = fake_cuda_allocate(0, 4000);
                                    communicator.barrier();
                                    if (communicator.rank() == 0) fake_cuda_fail("", number, kLaunchFailed);
                                    communicator.barrier();
                                    try {
                                      for (int i = 0; i < 2; ++i) communicator.all_reduce(floats(data, 1000));
                                    } catch (...) {
                                      communicator = {};
                                      fake_cuda_free(data);
                                      throw;
                                    }
                                    communicator = {};
                                    fake_cuda_free(data);
                                  })
                            .errors;
    const std::string function = fake_cuda_failed();
    has_failed = !function.empty();
    fake_cuda_fail("", 0, 0);
    const FakeCudaCounts after = fake_cuda_counts();
    EXPECT_EQ(after.streams, before.streams) << function;
    EXPECT_EQ(after.events, before.events) << function;
    EXPECT_EQ(after.regions, before.regions) << function;
    EXPECT_EQ(fake_nccl_communicators(), 0) << function;
    if (!has_failed) {
      EXPECT_EQ(errors[0] + errors[1], "");
      break;
    }
    // Ranks are threads of one process, which fail alike.
    for (const std::string& error : errors) {
      if (error.empty()) continue;  // the other rank has failed after this one's last call
      EXPECT_NE(error.find("unspecified launch failure"), std::string::npos) << error;
      EXPECT_NE(error.find("all_reduce"), std::string::npos) << error;
    }
    // When the calls are over, a failure changes nothing.
    if (errors[0] + errors[1] == "") break;
  }
  EXPECT_GT(number, 40);
}

TEST(DeviceFailures, CallsInFlightEndWithTheCommunicator) {
  void* const data[2] = {fake_cuda_allocate(0, 4000), fake_cuda_allocate(0, 4000)};
  const auto errors = run_ranks({.size = 2, .transport = "shm"}, [&](Communicator& communicator) {
                        if (communicator.rank() == 1) return;  // and goes
                        const Work work = communicator.all_reduce_async(floats(data[0], 1000));
                        work.wait();
                      }).errors;
  EXPECT_NE(errors[0].find("rank 1"), std::string::npos) << errors[0];
  for (void* const one : data) fake_cuda_free(one);
}

TEST(DeviceFailures, ARankThatComesLateIsNamed) {
  void* const data[2] = {fake_cuda_allocate(0, 4000), fake_cuda_allocate(0, 4000)};
  const auto errors = run_ranks({.size = 2, .transport = "shm", .timeout = std::chrono::milliseconds(400)},
                                [&](Communicator& communicator) {
                                  if (communicator.rank() == 1)
                                    std::this_thread::sleep_for(std::chrono::seconds(2));
                                  communicator.all_reduce(floats(data[communicator.rank()], 1000));
                                })
                          .errors;
  EXPECT_NE(errors[0].find("rank 1"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("all_reduce(sum of 1000 float32, on a device)"), std::string::npos) << errors[0];
  for (void* const one : data) fake_cuda_free(one);
}

}  // namespace
}  // namespace kolo::test
