// Sums between real processes: private buffers are read across address spaces (CMA), shared buffers are
// mapped.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multiprocess/processes.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class Truth : public ::testing::TestWithParam<const char*> {};

TEST_P(Truth, SumsOfPlainAndSharedMemory) {
  for (const int size : {2, 4, 7}) {
    Processes processes({.size = size, .transports = GetParam()}, [&](Communicator& c) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{3000}, std::size_t{1'000'003}}) {
        const SharedMemory memory(count * sizeof(std::int32_t));
        std::vector<std::int32_t> plain(count);
        for (const bool shared : {false, true}) {
          auto* data = shared ? reinterpret_cast<std::int32_t*>(memory.data()) : plain.data();
          for (int round = 0; round < 3; ++round) {
            for (std::size_t i = 0; i < count; ++i)
              data[i] = static_cast<std::int32_t>(i) * (c.rank() + 1) + round;
            c.all_reduce(Buffer(data, count, DType::int32));
            const std::int32_t factor = size * (size + 1) / 2;
            for (std::size_t i = 0; i < count; ++i) {
              require(data[i] == static_cast<std::int32_t>(i) * factor + round * size, "wrong sum");
            }
          }
        }
      }
    });
    for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
  }
}

// Buffers are allocated and freed between calls: peers must neither keep old mappings nor mistake new memory
// for old.
TEST_P(Truth, SharedMemoryThatComesAndGoes) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    for (int round = 0; round < 300; ++round) {
      const SharedMemory memory(100'000);
      const Buffer data = memory.buffer(25'000, DType::float32);
      auto* values = static_cast<float*>(data.data);
      for (std::size_t i = 0; i < 25'000; ++i) values[i] = static_cast<float>(round + c.rank());
      c.all_reduce(data);
      for (std::size_t i = 0; i < 25'000; ++i)
        require(values[i] == static_cast<float>(3 * round + 3), "wrong sum");
    }
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

// Workers send requests to one server, which answers each one before it receives the next.
TEST_P(Truth, AServerReceivesFromAnyWorker) {
  constexpr int kRequests = 40;
  Processes processes({.size = 4, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<std::int32_t> data(100'003);
    if (c.rank() > 0) {
      for (int k = 0; k < kRequests; ++k) {
        std::fill(data.begin(), data.end(), c.rank() * 1000 + k);
        c.send(data, 0);
        c.recv(data, 0);
        require(data.front() == -c.rank() && data.back() == -k, "another worker's answer");
      }
      return;
    }
    std::vector<int> served(4);
    for (int k = 0; k < 3 * kRequests; ++k) {
      const int worker = c.recv_any(data);
      const int number = served[static_cast<std::size_t>(worker)]++;
      require(data.front() == worker * 1000 + number && data.back() == data.front(), "a wrong request");
      data.front() = -worker;
      data.back() = -number;
      c.send(data, worker);
    }
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

TEST_P(Truth, AForkThatEndsDoesTheLinksNoHarm) {
  Processes processes({.size = 3, .transports = GetParam()}, [&](Communicator& c) {
    std::vector<std::int32_t> data(100'000, 1);
    c.all_reduce(data);
    if (c.rank() == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        { const Communicator mine = std::move(c); }
        ::_exit(0);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the fork did not end well");
    }
    for (int i = 0; i < 3; ++i) c.all_reduce(data);
    require(data.front() == 81 && data.back() == 81, "wrong sum");
  });
  for (const RankEnd& end : processes.collect(60s)) EXPECT_EQ(end.code, 0) << end.error;
}

/// A call for which rank 1 has no memory, at its start or later, fails with an error that says so. Later
/// calls work.
void run_out_of_memory(const char* transports, const CallOptions& options) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  Processes processes({.size = 3, .transports = transports, .timeout = 40s}, [&](Communicator& c) {
    std::vector<float> data(16 << 20);
    std::string error;
    try {
      c.barrier();  // other ranks may still be in the barrier when they learn of the failure
      if (c.rank() == 1) {
        const rlimit little{64 << 10, 64 << 10};
        ::setrlimit(RLIMIT_AS, &little);  // below the current use, so every allocation fails
      }
      c.all_reduce(data, ReduceOp::sum, options);
    } catch (const Error& problem) {
      error = problem.what();
    }
    require(error.find("rank 1 has no memory for its part") != error.npos, "not told: " + error);
    try {
      c.barrier();
      require(false, "the communicator still works");
    } catch (const Error&) {
    }
  });
  for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
#else
  GTEST_SKIP() << "a sanitizer needs memory of its own";
#endif
}

TEST_P(Truth, ARankWithoutMemoryForACallSaysSo) {
  run_out_of_memory(GetParam(), {.algorithm = "naive"});
}

TEST_P(Truth, ARankWithoutMemoryForAMessageSaysSo) {
  run_out_of_memory(GetParam(), {.algorithm = "ring", .segment_bytes = 16 << 20, .wire = Wire::int8});
}

// Rank 1 makes no call, so its progress thread takes in what comes, perhaps as the first thing it does.
TEST_P(Truth, ARankWithoutMemoryForMessagesThatComeEarlyDoesNotDie) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  int sent[2];
  ASSERT_EQ(::pipe(sent), 0);
  Processes processes({.size = 2, .transports = GetParam(), .timeout = 20s}, [&](Communicator& c) {
    std::string error;
    std::vector<std::byte> data(8 << 10);
    c.barrier();
    try {
      if (c.rank() == 0) {
        for (int i = 0; i < 1000; ++i) c.send(data, 1);
        require(::write(sent[1], "", 1) == 1, "rank 1 is not told");
      } else {
        const rlimit little{64 << 10, 64 << 10};
        ::setrlimit(RLIMIT_AS, &little);
        char word;
        require(::read(sent[0], &word, 1) == 1, "rank 0 has ended");
      }
      c.barrier();
    } catch (const Error& problem) {
      error = problem.what();
      (void)!::write(sent[1], "", 1);
    }
    require(error.empty() || error.find("rank 1 has no memory for its part") != error.npos, error);
  });
  for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
  ::close(sent[0]);
  ::close(sent[1]);
#else
  GTEST_SKIP() << "a sanitizer needs memory of its own";
#endif
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Truth, kBetweenProcesses, kTransportNames);

TEST(ManyRanks, SumDataOfEverySize) {
  constexpr int kRanks = 40;
  Processes processes({.size = kRanks}, [](Communicator& c) {
    for (const std::size_t count : {2u, 1000u, 4096u, 50'000u, 262'144u, 3u}) {
      std::vector<std::int32_t> data(count);
      for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int32_t>(i) + c.rank() + round;
        c.all_reduce(data);
        for (std::size_t i = 0; i < count; ++i) {
          const std::int32_t expected =
              kRanks * (static_cast<std::int32_t>(i) + round) + kRanks * (kRanks - 1) / 2;
          require(data[i] == expected, "wrong sum");
        }
      }
    }
  });
  for (const RankEnd& end : processes.collect(90s)) EXPECT_EQ(end.code, 0) << end.error;
}

TEST(Transports, AreChosenByWhatTheyReach) {
  Processes processes({.size = 2, .transports = "inproc,shm,tcp"}, [](Communicator& c) {
    require(c.transport_to(1 - c.rank()) == "shm", "two processes of one host do not use shared memory");
  });
  for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
}

}  // namespace
}  // namespace kolo::test
