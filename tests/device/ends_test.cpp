// How calls on devices end when the communicator, the stream or the process is not there until then.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "device/fake_cuda.hpp"
#include "device/memory.hpp"
#include "support/cluster.hpp"

namespace kolo::test {
namespace {

using std::chrono::milliseconds;

/// Each of two ranks has a GPU.
std::vector<std::string> errors_of(const std::function<void(Communicator&)>& body,
                                   milliseconds timeout = milliseconds(20'000)) {
  return run_ranks({.size = 2, .transport = "shm", .timeout = timeout}, body).errors;
}

/// A kernel that takes so long, before what the stream gets from now on.
void write_late(const OwnStream& stream, const DeviceFloats& data, milliseconds delay) {
  const std::vector<float> ones(data.count, 1);
  const auto us = static_cast<int>(std::chrono::microseconds(delay).count());
  fake_cuda_write_on(stream.handle(), data.address, ones.data(), data.count * sizeof(float), us);
}

TEST(DeviceEnds, AForkedChildLetsGoOfItsCopy) {
  const auto errors = errors_of([](Communicator& communicator) {
    const DeviceFloats data(10, communicator.rank());
    communicator.all_reduce(data.buffer());
    if (communicator.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(20);
        communicator = {};
        ::_exit(0);
      }
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    communicator.all_reduce(data.buffer());
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(DeviceEnds, ARankWhoseStreamIsLateIsNamed) {
  const auto errors = errors_of(
      [](Communicator& communicator) {
        const DeviceFloats data(10, communicator.rank());
        const OwnStream stream(communicator.rank());
        if (communicator.rank() == 1)
          for (int i = 0; i < 20; ++i) write_late(stream, data, milliseconds(200));
        EXPECT_THROW(
            try {
              communicator.all_reduce(data.buffer(), ReduceOp::sum, {.stream = stream.handle()});
            } catch (const TimeoutError& error) {
              EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
              if (communicator.rank() == 1) {
                EXPECT_NE(std::string(error.what()).find("the call's stream is not there yet after 0.5 s"),
                          std::string::npos)
                    << error.what();
              }
              throw;
            },
            TimeoutError);
      },
      milliseconds(500));
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(DeviceEnds, WorksOutliveTheirCommunicator) {
  const auto errors = errors_of([](Communicator& communicator) {
    const DeviceFloats data(10, communicator.rank());
    const OwnStream stream(communicator.rank());
    const Work done = communicator.all_reduce_async(data.buffer());
    done.wait();
    communicator.barrier();
    write_late(stream, data, milliseconds(300));
    const Work late =
        communicator.all_reduce_async(data.buffer(), ReduceOp::sum, {.stream = stream.handle()});
    int callbacks = 0;
    late.then([&](const Work& work) { callbacks += work.error() != nullptr ? 1 : 100; });
    try {
      static_cast<void>(late.wait(milliseconds(1)));
    } catch (const PeerLostError&) {  // the other rank has ended already
    }
    communicator = {};
    EXPECT_EQ(callbacks, 1);
    EXPECT_THROW(late.wait(), PeerLostError);
    EXPECT_THROW(late.order(stream.handle()), PeerLostError);
    done.order(stream.handle());
    done.wait();
    stream.synchronize();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(DeviceEnds, ThreadsAndGroupsDoNotWaitForEachOther) {
  const auto errors = errors_of([](Communicator& communicator) {
    const DeviceFloats slow(10, communicator.rank());
    const OwnStream stream(communicator.rank());
    communicator.all_reduce(slow.buffer());
    write_late(stream, slow, milliseconds(100));
    const Work late =
        communicator.all_reduce_async(slow.buffer(), ReduceOp::sum, {.stream = stream.handle()});
    Communicator half = communicator.split(0);
    in_threads(2, [&](int) {
      const DeviceFloats data(10, communicator.rank());
      for (int i = 0; i < 50; ++i) {
        for (std::size_t k = 0; k < data.count; ++k) data.values[k] = 1;
        half.all_reduce(data.buffer());
        EXPECT_EQ(data.values[9], 2);
      }
    });
    late.wait();
    EXPECT_EQ(slow.values[9], 2);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace kolo::test
