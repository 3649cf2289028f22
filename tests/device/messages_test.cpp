// Sends and receives on a device's memory: they begin after what their stream holds, meet those on the host's
// memory, and wait for each other only as those do.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "device/fake_cuda.hpp"
#include "device/memory.hpp"
#include "kolo/call_batch.hpp"
#include "support/cluster.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

constexpr std::size_t kLengths[] = {1, 1000, 2'500'000};

std::vector<float> filled(std::size_t count, int value) {
  return std::vector<float>(count, static_cast<float>(value));
}

void require(bool is_right) {
  if (!is_right) throw std::runtime_error("another message");
}

/// Each rank passes on what a late kernel writes, and a kernel reads what has come. All send before they
/// receive.
std::vector<std::string> pass_around(const char* transport, std::size_t count) {
  return run_ranks({.size = 3, .transport = transport},
                   [count](Communicator& communicator) {
                     const OwnStream stream;
                     const DeviceFloats out(count), in(count);
                     const int rank = communicator.rank(), next = (rank + 1) % 3, before = (rank + 2) % 3;
                     for (int round = 1; round <= 3; ++round) {
                       const auto mine = filled(count, 10 * round + rank);
                       fake_cuda_write_on(stream.handle(), out.address, mine.data(), count * sizeof(float),
                                          3000);
                       const Work sent = communicator.send_async(out.buffer(), next, 1, {}, stream.handle());
                       communicator.recv(in.buffer(), before, 1, {}, stream.handle());
                       std::vector<float> seen(count, -1);
                       fake_cuda_read_on(stream.handle(), seen.data(), in.address, count * sizeof(float));
                       stream.synchronize();
                       require(seen == filled(count, 10 * round + before));
                       sent.wait();
                     }
                   })
      .errors;
}

class DeviceMessagesOver : public testing::TestWithParam<const char*> {};

TEST_P(DeviceMessagesOver, AreOrderedAmongKernels) {
  fake_cuda_delay(300, 3);
  for (const std::size_t count : kLengths)
    for (const std::string& error : pass_around(GetParam(), count)) EXPECT_EQ(error, "");
  fake_cuda_delay(0, 1);
  EXPECT_EQ(fake_cuda_unregistered_copies(), 0);
}

INSTANTIATE_TEST_SUITE_P(Device, DeviceMessagesOver, kTransports, kTransportNames);

// What this shows as a wrong message is a race.
#ifndef __SANITIZE_THREAD__
TEST(DeviceMessages, AreInNoOrderWithoutEvents) {
  fake_cuda_forget_records(true);
  const auto errors = pass_around("shm", 1000);
  EXPECT_NE(errors[0] + errors[1] + errors[2], "") << "events that are not recorded make no difference";
  fake_cuda_forget_records(false);
}
#endif

TEST(DeviceMessages, ManyAreInFlightBothWaysAndMeetTheHosts) {
  constexpr std::size_t kMany = 40, kEach = 5000;
  expect_ranks({.size = 2, .transport = "shm"}, [](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    const DeviceFloats out(kMany * kEach), in(kMany * kEach);
    std::vector<float> host(kMany * kEach);
    for (std::size_t i = 0; i < out.count; ++i) out.values[i] = static_cast<float>(i);
    std::vector<Work> works;
    // Rank 0 receives on the device what rank 1 sends from the host, and the reverse.
    for (std::size_t i = 0; i < kMany; ++i) {
      Buffer sent = out.buffer(), received = in.buffer();
      const bool is_other = i % 2 == 1;
      if (is_other) received = Buffer(host.data(), host.size(), DType::float32);
      for (Buffer* const part : {&sent, &received}) {
        part->data = static_cast<float*>(part->data) + i * kEach;
        part->count = kEach;
      }
      works.push_back(communicator.send_async(sent, peer));
      works.push_back(communicator.recv_async(received, peer));
    }
    wait_all(works);
    for (std::size_t i = 0; i < in.count; ++i)
      require((i / kEach % 2 == 1 ? host[i] : in.values[i]) == static_cast<float>(i));
  });
}

TEST(DeviceMessages, OfEveryKind) {
  expect_ranks({.size = 2, .transport = "shm"}, [](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    const DeviceFloats out(7), in(7);
    const auto expect = [&](float value) {
      communicator.barrier();
      require(in.values[6] == value);
      communicator.barrier();
      out.values[6] = value + 1;
    };
    out.values[6] = 1;
    communicator.sendrecv(out.buffer(), peer, in.buffer(), peer);
    expect(1);
    const Work sent = communicator.send_async(out.buffer(), peer);
    require(communicator.recv_any(in.buffer()) == peer);
    sent.wait();
    expect(2);
    CallBatch batch(communicator);
    batch.send(out.buffer(), peer);
    batch.recv(in.buffer(), peer);
    batch.run();
    expect(3);
    const Work self = communicator.recv_async(in.buffer(), communicator.rank(), 5);
    communicator.send(out.buffer(), communicator.rank(), 5);
    self.wait();
    expect(4);
    communicator.sendrecv(Buffer(out.address, 0, DType::float32, kFirstDevice), peer,
                          Buffer(nullptr, 0, DType::float32, kFirstDevice), peer);
  });
}

TEST(DeviceMessages, WrongOnesAreRefusedAndNothingElseFails) {
  expect_ranks({.size = 2, .transport = "shm"}, [](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    const DeviceFloats data(1000);
    std::vector<float> host(1000);
    const auto expect_refusal = [&](const Buffer& wrong, const std::string& text, void* stream = nullptr) {
      try {
        communicator.recv_async(wrong, peer, 0, {}, stream).wait();
        ADD_FAILURE() << "not refused: " << text;
      } catch (const InvalidArgumentError& error) {
        const std::string said = error.what();
        EXPECT_NE(said.find(text), std::string::npos) << said;
        EXPECT_EQ(said.find("rank " + std::to_string(communicator.rank()) + ": recv: "), 0) << said;
      }
    };
    expect_refusal({host.data(), 1000, DType::float32, kFirstDevice}, "`data` is no memory of cuda:0");
    expect_refusal({data.address, 1200, DType::float32, kFirstDevice},
                   "`data` has 4800 bytes, of which 4000");
    expect_refusal({data.address, 1000, DType::float32, {DeviceKind::cuda, 7}}, "there is no cuda:7");
    expect_refusal(Buffer(host), "`stream` orders calls on a device's memory", &host);
    communicator.sendrecv(data.buffer(), peer, Buffer(host), peer);
  });
}

/// Each call of the driver fails in turn, and all after it: only this rank's messages do.
TEST(DeviceMessages, EachFailureIsAnErrorAndLeavesNothing) {
  const FakeCudaCounts before = fake_cuda_counts();
  int number = 1;
  for (std::string failed = "any"; !failed.empty(); ++number) {
    ASSERT_LT(number, 100);
    std::string error;
    {
      void* const memory = fake_cuda_allocate(0, 8);
      const auto store = make_memory_store();
      Communicator alone = Communicator::create(store, 0, 1);
      fake_cuda_fail("", number, 719);
      try {
        const Work received = alone.recv_async(Buffer(memory, 1, DType::float32, kFirstDevice), 0);
        alone.send(ConstBuffer(memory, 1, DType::float32, kFirstDevice), 0);
        received.wait();
      } catch (const Error& caught) {
        error = caught.what();
      }
      failed = fake_cuda_failed();
      fake_cuda_fail("", 0, 0);
      alone = {};
      fake_cuda_free(memory);
    }
    EXPECT_EQ(error.empty(), failed.empty()) << failed;
    if (!failed.empty()) {
      EXPECT_NE(error.find("unspecified launch failure"), std::string::npos) << failed << ": " << error;
      EXPECT_NE(error.find("rank 0: "), std::string::npos) << failed << ": " << error;
    }
    const FakeCudaCounts after = fake_cuda_counts();
    EXPECT_EQ(after.streams, before.streams) << failed;
    EXPECT_EQ(after.events, before.events) << failed;
    EXPECT_EQ(after.regions, before.regions) << failed;
  }
  EXPECT_GT(number, 20);
}

TEST(DeviceMessages, AStreamThatIsNotThereInTimeIsAnError) {
  expect_ranks({.size = 2, .transport = "shm"}, [](Communicator& communicator) {
    const OwnStream stream;
    const DeviceFloats data(10);
    const auto zeros = filled(10, 0);
    fake_cuda_write_on(stream.handle(), data.address, zeros.data(), 40, 300'000);
    EXPECT_THROW(communicator.send(data.buffer(), 1 - communicator.rank(), 0, std::chrono::milliseconds(50),
                                   stream.handle()),
                 TimeoutError);
    stream.synchronize();
  });
}

}  // namespace
}  // namespace kolo::test
