// NCCL as the engine of calls on devices: who gets it, what it computes, and how it ends when a rank or NCCL
// itself fails.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/config.hpp"
#include "comm/device/gpu_engine.hpp"
#include "device/fake_cuda.hpp"
#include "device/fake_nccl.hpp"
#include "device/memory.hpp"
#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using comm::GpuAbility;
using comm::GpuEngine;

GpuAbility ability(const char* wish, int version, char gpu) {
  GpuAbility one;
  std::strcpy(one.wish.data(), wish);
  one.nccl_version = version;
  one.gpu.fill(gpu);
  if (version == 0) std::strcpy(one.trouble.data(), "libnccl.so.2: not there");
  return one;
}

void expect_choice(const std::vector<GpuAbility>& ranks, GpuEngine engine, const std::string& why) {
  const auto choice = choose_gpu_engine(ranks);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice.value().engine, engine);
  EXPECT_EQ(choice.value().why, why);
}

void expect_refusal(const std::vector<GpuAbility>& ranks, const std::string& why) {
  const auto choice = choose_gpu_engine(ranks);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), Code::invalid_argument);
  EXPECT_EQ(choice.status().message(), why);
}

TEST(GpuEngines, AreChosenByAllRanks) {
  const auto one = ability("auto", 22809, 1), two = ability("auto", 22809, 2),
             newer = ability("auto", 23007, 3), none = ability("auto", 0, 4),
             staged = ability("staged", 0, 5), nccl = ability("nccl", 22809, 1);
  expect_choice({one, two}, GpuEngine::nccl, "all ranks have NCCL 2.28.9");
  expect_choice({one, two, one}, GpuEngine::staged, "ranks 0 and 2 share a GPU");
  expect_choice({one, newer}, GpuEngine::staged, "rank 0 has NCCL 2.28.9, rank 1 has 2.30.7");
  expect_choice({one, none}, GpuEngine::staged, "rank 1 has no NCCL: libnccl.so.2: not there");
  expect_choice({one, two, staged}, GpuEngine::staged, "rank 2 asks for it");
  expect_choice({one, nccl}, GpuEngine::nccl, "rank 1 asks for it");
  expect_refusal({nccl, none}, "KOLO_GPU is nccl on rank 0, but rank 1 has no NCCL: libnccl.so.2: not there");
  expect_refusal({staged, nccl}, "KOLO_GPU is nccl on rank 1, but it is staged on rank 0");
  expect_refusal({one, newer, nccl},
                 "KOLO_GPU is nccl on rank 2, but rank 0 has NCCL 2.28.9, rank 1 has 2.30.7");
}

/// Each of two ranks has a GPU.
std::vector<std::string> on_own_gpus(const std::function<void(Communicator&)>& body,
                                     std::chrono::nanoseconds timeout = std::chrono::seconds(20)) {
  return run_ranks({.size = 2, .transport = "shm", .timeout = timeout}, body).errors;
}

void expect_all(const DeviceFloats& data, float expected) {
  for (std::size_t i = 0; i < data.count; ++i)
    if (data.values[i] != expected)
      throw std::runtime_error("a wrong sum: " + std::to_string(data.values[i]));
}

void fill(const DeviceFloats& data, float value) {
  for (std::size_t i = 0; i < data.count; ++i) data.values[i] = value;
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (config().gpu == "staged") GTEST_SKIP() << "KOLO_GPU is staged";
    aborts_ = fake_nccl_aborts();
    communicators_ = fake_nccl_communicators();
    counts_ = fake_cuda_counts();
  }
  void TearDown() override {
    EXPECT_EQ(fake_nccl_communicators(), communicators_);
    const FakeCudaCounts now = fake_cuda_counts();
    EXPECT_EQ(now.streams, counts_.streams);
    EXPECT_EQ(now.events, counts_.events);
    EXPECT_EQ(now.contexts, counts_.contexts);
  }
  int aborts() const { return fake_nccl_aborts() - aborts_; }

 private:
  int aborts_ = 0, communicators_ = 0;
  FakeCudaCounts counts_{};
};

TEST_F(Nccl, SumsWhereEachRankHasAGpu) {
  for (const std::string& error : on_own_gpus([](Communicator& communicator) {
         const DeviceFloats data(1000, communicator.rank());
         for (int round = 0; round < 3; ++round) {
           fill(data, static_cast<float>(1 + communicator.rank()));
           const Work work = communicator.all_reduce_async(data.buffer());
           work.wait();
           EXPECT_EQ(work.algorithm(), "nccl");
           expect_all(data, 3);
         }
         // Each rank has a factor of its own, and one has none.
         const auto half = Reduction::premultiplied_sum(0.5);
         communicator.all_reduce(data.buffer(), communicator.rank() == 0 ? half : Reduction(ReduceOp::sum));
         expect_all(data, 4.5F);
         // What NCCL does not know goes through the host.
         fill(data, 1);
         const Work scan = communicator.scan_async(data.buffer(), data.buffer());
         scan.wait();
         EXPECT_EQ(scan.algorithm(), "staged");
         expect_all(data, static_cast<float>(1 + communicator.rank()));
       }))
    EXPECT_EQ(error, "");
  EXPECT_EQ(aborts(), 0);
}

TEST_F(Nccl, IsMadeAnewForEachPart) {
  for (const std::string& error : on_own_gpus([](Communicator& communicator) {
         const DeviceFloats data(10, communicator.rank());
         fill(data, 1);
         communicator.all_reduce(data.buffer());
         Communicator all = communicator.split(0, -communicator.rank());
         all.all_reduce(data.buffer());
         Communicator own = communicator.split(communicator.rank());
         own.all_reduce(data.buffer());
         expect_all(data, 4);
       }))
    EXPECT_EQ(error, "");
  EXPECT_EQ(aborts(), 0);
}

TEST_F(Nccl, RefusesListsOnOneRankAlone) {
  const auto errors = on_own_gpus([](Communicator& communicator) {
    const DeviceFloats own(10, communicator.rank()), all(20, communicator.rank());
    Buffer halves[] = {all.buffer(), all.buffer()};
    for (Buffer& half : halves) half.count = 10;
    halves[1].data = static_cast<float*>(all.address) + 10;
    if (communicator.rank() == 0) {
      communicator.all_gather(own.buffer(), all.buffer());
    } else {
      communicator.all_gather(own.buffer(), halves);
    }
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("20 float32, on a device)"), std::string::npos) << error;
    EXPECT_NE(error.find("20 float32, in lists on a device)"), std::string::npos) << error;
  }
}

TEST_F(Nccl, OrdersAStreamBehindACallThatIsNotOver) {
  for (const std::string& error : on_own_gpus([](Communicator& communicator) {
         const DeviceFloats data(10, communicator.rank());
         const OwnStream stream(communicator.rank());
         fill(data, 1);
         communicator.all_reduce(data.buffer());  // the engine is chosen
         communicator.barrier();
         if (communicator.rank() == 0) fake_nccl_hang(true);
         communicator.barrier();
         const Work work =
             communicator.all_reduce_async(data.buffer(), ReduceOp::sum, {.stream = stream.handle()});
         work.order(stream.handle());
         std::vector<float> seen(10);
         fake_cuda_read_on(stream.handle(), seen.data(), data.address, 40);
         EXPECT_FALSE(work.done());
         communicator.barrier();
         fake_nccl_hang(false);
         stream.synchronize();
         EXPECT_EQ(seen, std::vector<float>(10, 4));
         work.wait();
       }))
    EXPECT_EQ(error, "");
}

/// A kernel never ends. Returns what the ranks say, with this timeout.
std::vector<std::string> hang(std::chrono::nanoseconds timeout,
                              const std::function<void(Communicator&)>& meanwhile,
                              const std::function<void(Communicator&)>& after = {}) {
  std::latch both_are_over(2);  // or the kernel of the slower rank ends well
  const auto errors = on_own_gpus(
      [&](Communicator& communicator) {
        const DeviceFloats data(10, communicator.rank());
        fill(data, 1);
        communicator.all_reduce(data.buffer());
        communicator.barrier();
        if (communicator.rank() == 0) fake_nccl_hang(true);
        communicator.barrier();
        const Work work = communicator.all_reduce_async(data.buffer());
        const Work next = communicator.all_reduce_async(data.buffer());
        try {
          meanwhile(communicator);
          work.wait();
          both_are_over.count_down();
        } catch (const Error&) {
          EXPECT_THROW(next.wait(), Error);
          both_are_over.arrive_and_wait();
          fake_nccl_hang(false);
          if (after) after(communicator);
          throw;
        }
      },
      timeout);
  fake_nccl_hang(false);
  return errors;
}

TEST_F(Nccl, EndsAtTheDeadlineAndAllRanksAbort) {
  const auto errors = hang(
      std::chrono::milliseconds(500), [](Communicator&) {},
      [](Communicator& communicator) {
        communicator.set_timeout(std::chrono::seconds(20));
        Communicator next = communicator.shrink();
        const DeviceFloats data(10, communicator.rank());
        fill(data, 5);
        next.all_reduce(data.buffer());
        expect_all(data, 10);
      });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("timed out after 0.5 s without progress"), std::string::npos) << error;
    EXPECT_NE(error.find("all_reduce(sum of 10 float32, on a device)"), std::string::npos) << error;
  }
  EXPECT_EQ(aborts(), 2);
}

TEST_F(Nccl, EndsWhenARankIsLost) {
  const auto errors = hang(std::chrono::seconds(20), [](Communicator& communicator) {
    if (communicator.rank() == 1) communicator = {};
  });
  EXPECT_NE(errors[0].find("rank 1 destroyed its communicator"), std::string::npos) << errors[0];
  EXPECT_EQ(aborts(), 2);
}

TEST_F(Nccl, ThatFailsIsAnErrorOnAllRanks) {
  const auto errors = hang(std::chrono::seconds(20), [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) fake_nccl_break(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fake_nccl_break(0);
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("cannot go on with call"), std::string::npos) << error;
    EXPECT_NE(error.find("ncclCommGetAsyncError: "), std::string::npos) << error;
  }
  EXPECT_EQ(aborts(), 2);
}

TEST_F(Nccl, IsOnOneDevice) {
  const auto errors = on_own_gpus([](Communicator& communicator) {
    const DeviceFloats first(10, communicator.rank()), second(10, 1 - communicator.rank());
    communicator.all_reduce(first.buffer());
    communicator.all_reduce(second.buffer());
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("this communicator's calls run on cuda:"), std::string::npos) << error;
}

}  // namespace
}  // namespace kolo::test
