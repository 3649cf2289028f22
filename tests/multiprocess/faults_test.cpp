// Ranks are killed and stopped in the middle of operations: errors name the right rank in time, and nothing
// is left behind.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// Names in /dev/shm, and kolo's sockets and files in the temporary folder: must be the same before and
/// after.
std::vector<std::string> traces() {
  std::vector<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (std::string(folder) == "/dev/shm" || name.find("kolo") == 0) names.push_back(entry.path().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Faults : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { before_ = traces(); }
  void TearDown() override {
    EXPECT_EQ(traces(), before_) << "something was left behind";
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process was left behind";
  }

 private:
  std::vector<std::string> before_;
};

constexpr int kVictim = 2;

void forever(Communicator& c, const std::function<void()>& operation) {
  for (;;) {
    operation();
    if (c.size() == 0) return;
  }
}

void all_reduce_forever(Communicator& c, std::size_t count) {
  std::vector<float> data(count);
  forever(c, [&] { c.all_reduce(data); });
}

void expect_killed(Processes& processes, int size) {
  processes.await_ready();
  std::this_thread::sleep_for(150ms);
  processes.hurt(kVictim, SIGKILL);
  EXPECT_EQ(processes.collect_one(kVictim, 5s).signal, SIGKILL);
  for (int r = 0; r < size; ++r) {
    if (r == kVictim) continue;
    const RankEnd end = processes.collect_one(r, 10s);
    EXPECT_EQ(end.code, 1) << "rank " << r << ": " << end.error;
    EXPECT_EQ(end.blamed, kVictim) << "rank " << r << ": " << end.error;
    EXPECT_NE(end.error.find("PeerLostError: lost rank 2"), std::string::npos)
        << "rank " << r << ": " << end.error;
    EXPECT_LT(end.ended_at, 1.0) << "rank " << r << " took too long to learn of it";
  }
}

TEST_P(Faults, AKilledRankIsNamedWithinASecond) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{50'000}, std::size_t{8'000'000}}) {
    Processes processes({.size = 4, .transports = GetParam()},
                        [&](Communicator& c) { all_reduce_forever(c, count); });
    expect_killed(processes, 4);
  }
}

TEST_P(Faults, AKilledRankIsNamedInEveryCollective) {
  using Body = std::function<void(Communicator&, std::vector<float>&, std::vector<float>&)>;
  const std::vector<Body> bodies = {
      [](auto& c, auto& a, auto& b) {
        c.all_gather(Buffer(a.data(), a.size() / 3, DType::float32),
                     Buffer(b.data(), a.size() / 3 * 3, DType::float32));
      },
      [](auto& c, auto& a, auto& b) {
        c.reduce_scatter(Buffer(a.data(), a.size() / 3 * 3, DType::float32),
                         Buffer(b.data(), a.size() / 3, DType::float32));
      },
      [](auto& c, auto& a, auto& b) {
        c.broadcast(a, 0);
        c.reduce(a, b, 1);
      },
      [](auto& c, auto& a, auto& b) {
        c.all_to_all(Buffer(a.data(), 999, DType::float32), Buffer(b.data(), 999, DType::float32));
      },
      [](auto& c, auto&, auto&) { c.barrier(); },
      [](auto& c, auto&, auto&) {
        (void)c.create_group(std::vector{2, 0, 1});
      },
      [](auto& c, auto& a, auto& b) {
        const Work receive = c.recv_async(b, (c.rank() + 2) % 3);
        c.send(a, (c.rank() + 1) % 3);
        receive.wait();
      },
  };
  for (const Body& body : bodies) {
    Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
      std::vector<float> a(60'000);
      std::vector<float> b(60'000);
      forever(c, [&] { body(c, a, b); });
    });
    expect_killed(processes, 3);
  }
}

TEST_P(Faults, ARankKilledBetweenCallsIsNamedByTheNext) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    if (c.rank() == kVictim) std::this_thread::sleep_for(30s);
    std::this_thread::sleep_for(600ms);  // the victim dies now
    c.barrier();
  });
  processes.await_ready();
  std::this_thread::sleep_for(200ms);
  processes.hurt(kVictim, SIGKILL);
  for (const RankEnd& end : processes.collect(5s, {kVictim})) {
    EXPECT_EQ(end.blamed, kVictim) << end.error;
    EXPECT_LT(end.ended_at, 1.0);
  }
}

TEST_P(Faults, ARankKilledIsNamedToCallbacks) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<float> data(1000);
    std::promise<std::exception_ptr> failed;
    std::function<void(const Work&)> next = [&](const Work& work) {
      if (work.error() != nullptr) return failed.set_value(work.error());
      c.all_reduce_async(data).then(std::ref(next));
    };
    next(Work());
    if (const auto error = failed.get_future().get()) std::rethrow_exception(error);
  });
  expect_killed(processes, 3);
}

TEST_P(Faults, ARankKilledWithSharedMemoryInUse) {
  Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
    const SharedMemory memory(16 << 20);
    forever(c, [&] { c.all_reduce(memory.buffer(4 << 20, DType::float32)); });
  });
  expect_killed(processes, 4);
}

TEST_P(Faults, AStoppedRankIsNamedAtTheDeadline) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{4'000'000}}) {
    Processes processes({.size = 4, .transports = GetParam(), .timeout = 1500ms},
                        [&](Communicator& c) { all_reduce_forever(c, count); });
    processes.await_ready();
    std::this_thread::sleep_for(150ms);
    processes.hurt(kVictim, SIGSTOP);
    for (const RankEnd& end : processes.collect(10s, {kVictim})) {
      EXPECT_NE(
          end.error.find("TimeoutError: timed out after 1.5 s without progress: rank 2 does not answer"),
          std::string::npos)
          << end.error;
      EXPECT_EQ(end.blamed, kVictim) << end.error;
      EXPECT_GT(end.ended_at, 1.3);
      EXPECT_LT(end.ended_at, 4.0) << end.error;  // bytes in flight may still have moved for a while
    }
    // When the stopped rank continues, it learns that its peers have given up.
    processes.hurt(kVictim, SIGCONT);
    const RankEnd victim = processes.collect_one(kVictim, 10s);
    EXPECT_EQ(victim.code, 1) << victim.error;
    EXPECT_NE(victim.error.find("rank 2 does not answer"), std::string::npos) << victim.error;
  }
}

// Each rank waits for the next one, and the last one makes no call. The deadlines pass in any order.
TEST_P(Faults, ARankThatWaitsIsNotBlamedForTheOneItWaitsFor) {
  constexpr int kRounds = 5;
  for (const int hung : {2, 3}) {
    std::vector<std::unique_ptr<Processes>> rounds;
    for (int round = 0; round < kRounds; ++round) {
      for (const bool sends : {false, true}) {
        const ProcessOptions options{.size = hung + 1, .transports = GetParam(), .timeout = 2s};
        rounds.push_back(std::make_unique<Processes>(options, [&](Communicator& c) {
          std::vector<float> data(1 << 20);
          c.barrier();
          std::this_thread::sleep_for(100ms * ((c.rank() + round) % 3));
          if (c.rank() == hung) std::this_thread::sleep_for(6s);
          if (sends && c.rank() < hung) c.send(data, c.rank() + 1);
          if (!sends && c.rank() < hung) c.recv(data, c.rank() + 1);
          c.barrier();
        }));
      }
    }
    for (const auto& processes : rounds) {
      for (const RankEnd& end : processes->collect(20s)) {
        EXPECT_NE(end.error.find("TimeoutError: timed out after 2 s"), std::string::npos) << end.error;
        EXPECT_EQ(end.blamed, hung) << end.error;
      }
    }
  }
}

TEST_P(Faults, InAPartTheErrorSaysWhoseNumbersItHas) {
  Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
    Communicator part = c.split(c.rank() % 2);
    if (c.rank() == 3) {
      std::this_thread::sleep_for(100ms);
      ::raise(SIGKILL);
    }
    all_reduce_forever(part, 1000);
  });
  for (const RankEnd& end : processes.collect(10s, {3})) {
    EXPECT_NE(end.error.find("lost rank 3: "), std::string::npos) << end.error;
    if (end.blamed < 0) continue;  // a rank of the other part
    EXPECT_EQ(end.blamed, 1);
    EXPECT_NE(end.error.find(" of the part with ranks 1, 3 failed"), std::string::npos) << end.error;
  }
}

// Over shared memory the receiver does all the work, and sends nothing while it reduces.
TEST_P(Faults, ASlowReductionIsNoSilence) {
  Processes processes(
      {.size = 2, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1"}}}, [](Communicator& c) {
        std::vector<float> data(4 << 20, 1.0f);
        const auto combine = [](void* out, const void* left, const void* right, std::uint64_t count, DType) {
          for (std::uint64_t i = 0; i < count; ++i) {
            static_cast<float*>(out)[i] =
                static_cast<const float*>(left)[i] + static_cast<const float*>(right)[i];
          }
          std::this_thread::sleep_for(std::chrono::nanoseconds(400 * count));
        };
        const auto slow = Reduction::custom({.name = "slow sum", .combine = combine, .commutative = true});
        if (c.rank() == 0)
          std::this_thread::sleep_for(300ms);  // so that all RTS frames have arrived when it comes
        c.reduce(data, data, 0, slow, {.algorithm = "binomial"});
        require(c.rank() != 0 || (data.front() == 2.0f && data.back() == 2.0f), "wrong sum");
      });
  for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
}

// However little data a call of the reduction has: a rank answers between two of them.
TEST_P(Faults, SlowCallsOfAReductionAreNoSilence) {
  for (const char* algorithm : {"ring", "binomial"}) {
    Processes processes(
        {.size = 3, .transports = GetParam(), .settings = {{"KOLO_HEARTBEAT", "1"}}}, [&](Communicator& c) {
          const auto combine = [](void* out, const void* left, const void* right, std::uint64_t count,
                                  DType) {
            for (std::uint64_t i = 0; i < count; ++i) {
              static_cast<float*>(out)[i] =
                  static_cast<const float*>(left)[i] + static_cast<const float*>(right)[i];
            }
            std::this_thread::sleep_for(200ms);
          };
          const auto slow = Reduction::custom({.name = "slow sum", .combine = combine, .commutative = true});
          std::vector<float> data(1 << 20, 1.0f);
          c.all_reduce(data, slow, {.algorithm = algorithm});
          require(data.front() == 3.0f && data.back() == 3.0f, "wrong sum");
        });
    for (const RankEnd& end : processes.collect(60s))
      EXPECT_EQ(end.code, 0) << algorithm << ": " << end.error;
  }
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Faults, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
