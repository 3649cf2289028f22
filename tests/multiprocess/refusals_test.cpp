// If the system refuses a resource or has no more of it, kolo takes the documented slower path, or fails with
// an error that names the resource and the rank.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "multiprocess/processes.hpp"
#include "support/forbid.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMany = 1'000'003;

void expect_sum(Communicator& c, Buffer data, const char* algorithm) {
  auto* numbers = static_cast<std::int32_t*>(data.data);
  std::fill_n(numbers, data.count, c.rank() + 1);
  c.all_reduce(data, ReduceOp::sum, {.algorithm = algorithm});
  const std::int32_t sum = c.size() * (c.size() + 1) / 2;
  require(std::all_of(numbers, numbers + data.count, [&](std::int32_t n) { return n == sum; }), "wrong sum");
}

/// Sums of private and of shared buffers, in shared memory and over the links.
void expect_sums(Communicator& c) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{3000}, kMany}) {
    std::vector<std::int32_t> own(count);
    const SharedMemory shared(count * sizeof(std::int32_t));
    for (const char* algorithm : {"direct", "ring"}) {
      expect_sum(c, own, algorithm);
      expect_sum(c, shared.buffer(count, DType::int32), algorithm);
    }
  }
}

void expect_good(Processes& processes) {
  for (const RankEnd& end : processes.collect(30s)) EXPECT_EQ(end.code, 0) << end.error;
}

#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer needs all addresses, and descriptors to inspect memory
void lower(__rlimit_resource resource, rlim_t limit) {
  rlimit now{};
  getrlimit(resource, &now);
  now.rlim_cur = limit;
  require(setrlimit(resource, &now) == 0, "setrlimit");
}

/// Lowers the limit of descriptors so that so many can be opened, and no more.
void allow_more_descriptors(int count) {
  const int next = dup(0);
  close(next);
  lower(RLIMIT_NOFILE, static_cast<rlim_t>(next + count));
}
void allow_no_more_descriptors() {
  allow_more_descriptors(0);
}

void allow_addresses(std::size_t more_bytes) {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  lower(RLIMIT_AS, pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more_bytes);
}

/// All ranks fail: `rank` with these words in its error, every other rank with an error that names `rank`.
void expect_blamed(Processes& processes, int size, int rank, const std::string& words) {
  for (int r = 0; r < size; ++r) {
    const RankEnd end = processes.collect_one(r, 30s);
    EXPECT_EQ(end.code, 1) << "rank " << r;
    EXPECT_NE(end.error.find(r == rank ? words : "rank " + std::to_string(rank)), std::string::npos)
        << "rank " << r << ": " << end.error;
  }
}

void expect_only_one_fails(Processes& processes, int size, int rank, const std::string& words) {
  for (int r = 0; r < size; ++r) {
    const RankEnd end = processes.collect_one(r, 30s);
    EXPECT_EQ(end.code, r == rank ? 1 : 0) << "rank " << r << ": " << end.error;
    EXPECT_NE(end.error.find(r == rank ? words : ""), std::string::npos) << end.error;
  }
}
#endif

TEST(Refusals, MemoryOfOthersThatMayNotBeReadIsStagedOrPushed) {
  Processes processes(
      {.size = 3, .prepare = [](int) { require(testing::forbid(SYS_process_vm_readv), "no seccomp here"); }},
      expect_sums);
  expect_good(processes);
}

TEST(Refusals, ARankWithoutMemfdTalksOverTcp) {
  std::string log = (std::filesystem::temp_directory_path() / "kolo-log-XXXXXX").string();
  const int file = mkstemp(log.data());
  ASSERT_GE(file, 0);
  setenv("KOLO_LOG", "info", 1);
  Processes processes({.size = 3,
                       .transports = "shm,tcp",
                       .prepare =
                           [&](int rank) {
                             dup2(file, STDERR_FILENO);
                             if (rank == 1) require(testing::forbid(SYS_memfd_create), "no seccomp here");
                           }},
                      [](Communicator& c) {
                        for (int peer = 0; peer < c.size(); ++peer) {
                          const bool meets_1 = (peer == 1) != (c.rank() == 1);
                          if (peer != c.rank())
                            require(c.transport_to(peer) == (meets_1 ? "tcp" : "shm"), "another transport");
                        }
                        std::vector<std::int32_t> data(kMany);
                        expect_sum(c, data, "");
                      });
  expect_good(processes);
  std::ifstream said(log);
  const std::string text(std::istreambuf_iterator<char>(said), {});
  EXPECT_NE(text.find("rank 1: no shm: shm: memfd_create: Operation not permitted"), std::string::npos)
      << text;
  close(file);
  std::filesystem::remove(log);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The sanitizers query a new thread's stack, and the C library then queries its cores too.
TEST(Refusals, WhoMayNotAskForItsCoresSharesMemoryAllTheSame) {
  Processes processes({.size = 3,
                       .transports = "shm,tcp",
                       .prepare =
                           [](int rank) {
                             if (rank == 1)
                               require(testing::forbid(SYS_sched_getaffinity), "no seccomp here");
                           }},
                      [](Communicator& c) {
                        for (int peer = 0; peer < c.size(); ++peer) {
                          if (peer != c.rank()) require(c.transport_to(peer) == "shm", "no shared memory");
                        }
                        expect_sums(c);
                      });
  expect_good(processes);
}
#endif

TEST(Refusals, WithoutMemfdAndWithoutTcpThereIsNoTransport) {
  Processes processes({.size = 2,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) require(testing::forbid(SYS_memfd_create), "no seccomp here");
                           }},
                      [](Communicator&) {});
  for (const RankEnd& end : processes.collect(10s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("RendezvousError"), std::string::npos) << end.error;
    EXPECT_NE(end.error.find("share no transport"), std::string::npos) << end.error;
  }
}

// The system reports the same error if a limit on processes is reached (ulimit -u, pids.max of a control
// group).
TEST(Refusals, ARankThatMayStartNoThreadSaysSo) {
  Processes processes({.size = 3,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) require(testing::forbid(SYS_clone3), "no seccomp here");
                           }},
                      [](Communicator& c) { c.barrier(); });
  for (const RankEnd& end : processes.collect(20s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("cannot start a thread (ulimit -u, "), std::string::npos) << end.error;
  }
}

TEST(Refusals, ARankThatMayNotWatchItsConnectionsSaysSo) {
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    Processes processes({.size = 3,
                         .transports = transports,
                         .timeout = 60s,
                         .prepare =
                             [](int rank) {
                               if (rank == 1) require(testing::forbid(SYS_epoll_ctl), "no seccomp here");
                             }},
                        [](Communicator& c) { c.barrier(); });
    for (const RankEnd& end : processes.collect(20s)) {
      EXPECT_EQ(end.code, 1);
      EXPECT_NE(end.error.find("epoll"), std::string::npos) << end.error;
    }
  }
}

#if defined(SYS_epoll_wait)
TEST(Refusals, ARankThatMayNotWaitForItsConnectionsSaysSo) {
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    for (const int culprit : {0, 1}) {
      Processes processes({.size = 3,
                           .transports = transports,
                           .timeout = 60s,
                           .prepare =
                               [&](int rank) {
                                 if (rank == culprit)
                                   require(testing::forbid(SYS_epoll_wait), "no seccomp here");
                               }},
                          [](Communicator& c) {
                            if (c.rank() == 2) std::this_thread::sleep_for(500ms);  // the other ranks sleep
                            c.barrier();
                            c.barrier();
                          });
      for (const RankEnd& end : processes.collect(20s)) {
        EXPECT_EQ(end.code, 1);
        EXPECT_NE(end.error.find("epoll_wait"), std::string::npos) << end.error;
      }
    }
  }
}

TEST(Refusals, RankZeroThatMayNotWaitServesNoStore) {
  Processes processes(
      {.size = 2,
       .timeout = 60s,
       .settings = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29871"}, {"KOLO_INSECURE", "1"}},
       .by_environment = true,
       .prepare = [](int) { require(testing::forbid(SYS_epoll_wait), "no seccomp here"); }},
      [](Communicator& c) { c.barrier(); });
  const RankEnd end = processes.collect_one(0, 20s);
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.error.find("epoll_wait"), std::string::npos) << end.error;
}
#endif

void become_somebody_else() {
  constexpr uid_t kNobody = 65534;
  require(setuid(kNobody) == 0, "setuid");
}

TEST(Refusals, RanksOfDifferentUsersTalkOverTcpWhereAllAreTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto prepare = [](int rank) {
    if (rank == 1) become_somebody_else();
  };
  const std::map<std::string, std::string> trusting{{"KOLO_INSECURE", "1"}};
  const ProcessOptions three{.size = 3, .transports = "shm,tcp", .settings = trusting, .prepare = prepare};
  Processes processes(three, [](Communicator& c) {
    require(c.transport_to(c.rank() == 1 ? 0 : 1) == "tcp", "users share memory");
    if (c.rank() != 1) require(c.transport_to(2 - c.rank()) == "shm", "one user's ranks share no memory");
    std::vector<std::int32_t> data(kMany);
    expect_sum(c, data, "");
  });
  expect_good(processes);
  Processes refused({.size = 2, .prepare = prepare}, [](Communicator&) {});
  for (const RankEnd& end : refused.collect(10s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("share no transport"), std::string::npos) << end.error;
  }
  Processes strict(
      {.size = 2, .transports = "tcp", .settings = {{"KOLO_HEARTBEAT", "1"}}, .prepare = prepare},
      [](Communicator&) {});
  for (const RankEnd& end : strict.collect(10s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("user"), std::string::npos) << end.error;
  }
}

#if !defined(__SANITIZE_ADDRESS__)
// Descriptors in flight between a user's processes count against the limit of each process (except root's).
TEST(Refusals, ManyRanksOfAUserMeetWithFewDescriptors) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  Processes processes({.size = 14,
                       .prepare =
                           [](int) {
                             allow_more_descriptors(40);
                             become_somebody_else();
                           }},
                      [](Communicator& c) { c.barrier(); });
  expect_good(processes);
}

/// A rank that has no address space for the memory that its peers expose.
template <typename Lack>
void expect_mapping_fails(Lack lack, const char* words) {
  for (const char* algorithm : {"direct", "ring"}) {
    Processes processes({.size = 3}, [&](Communicator& c) {
      const SharedMemory memory(16 << 20);
      std::vector<std::int32_t> own(kMany);
      expect_sum(c, own, "");
      if (c.rank() == 1) lack();
      c.barrier();  // or rank 1 gets the descriptors of faster ranks before it lacks any
      expect_sum(c, memory.buffer(4 << 20, DType::int32), algorithm);
    });
    expect_blamed(processes, 3, 1, words);
  }
}

// Connections are made on demand, when a schedule first needs them.
TEST(Refusals, NoDescriptorForALateConnection) {
  Processes processes({.size = 8, .transports = "tcp"}, [](Communicator& c) {
    constexpr int kDialling = 7;
    if (c.rank() == kDialling) allow_no_more_descriptors();
    std::vector<std::int32_t> word(1);
    if (c.rank() == kDialling) {
      for (int peer = 0; peer < kDialling; ++peer) c.send(word, peer);
    } else {
      c.recv(word, kDialling);
    }
    c.barrier();
    c.barrier();
  });
  expect_blamed(processes, 8, 7, "rank 7 has no descriptor for its connection to rank ");
}

// All ranks that can open connections form one group. The rank that cannot gets its error and is in no group.
TEST(Refusals, NoDescriptorToShrinkWith) {
  for (const int size : {5, 9}) {
    for (int round = 0; round < 8; ++round) {
      Processes processes({.size = size, .transports = "tcp", .timeout = 5s}, [&](Communicator& c) {
        const int last = size - 1;
        std::vector<std::int32_t> word(1);
        try {
          c.barrier();  // else a rank may still be in create()
          if (c.rank() == last) allow_more_descriptors(round);
          for (int peer = 0; peer < last && c.rank() == last; ++peer) c.send(word, peer);
          if (c.rank() != last) c.recv(word, last);
          c.barrier();
          c.abort("all ranks are connected");
        } catch (const Error&) {
        }
        const auto begin = std::chrono::steady_clock::now();
        Communicator next = c.shrink();
        require(std::chrono::steady_clock::now() - begin < 4500ms, "waited for a heartbeat");
        require(next.size() == last && next.rank() == c.rank(), "a group of " + std::to_string(next.size()));
        expect_sum(next, word, "");
      });
      // With some descriptors left, a peer may have been refused, and have taken the rank for lost, before.
      expect_only_one_fails(processes, size, size - 1, round == 0 ? "Too many open files" : "Error: ");
    }
  }
}

TEST(Refusals, NoDescriptorForTheMemoryOfOthers) {
  expect_mapping_fails(allow_no_more_descriptors, "Too many open files");
}

TEST(Refusals, NoDescriptorToMeetWith) {
  Processes processes({.size = 2,
                       .timeout = 2s,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) allow_no_more_descriptors();
                           }},
                      [](Communicator&) {});
  EXPECT_EQ(processes.collect_one(0, 10s).code, 1);
  const RankEnd end = processes.collect_one(1, 10s);
  EXPECT_NE(end.error.find("share no transport"), std::string::npos) << end.error;
}

TEST(Refusals, NoAddressesForTheMemoryOfOthers) {
  expect_mapping_fails([] { allow_addresses(8 << 20); }, "Cannot allocate memory");
}

TEST(Refusals, NoThreadToMeetWith) {
  Processes processes({.size = 3,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) require(testing::forbid(SYS_clone3), "no seccomp here");
                           }},
                      [](Communicator&) {});
  for (const RankEnd& end : processes.collect(10s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("cannot start a thread"), std::string::npos) << end.error;
  }
}

TEST(Refusals, TooSmallAFileSizeLimitIsAnErrorAndNoSignal) {
  Processes processes({.size = 3,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) lower(RLIMIT_FSIZE, 64 << 10);
                           }},
                      [](Communicator&) {});
  for (const RankEnd& end : processes.collect(10s)) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find("ulimit -f allows files of 65536 bytes"), std::string::npos) << end.error;
  }
}

TEST(Refusals, SharedMemoryBeyondTheFileSizeLimitIsAnError) {
  Processes processes({.size = 2}, [](Communicator& c) {
    if (c.rank() == 1) lower(RLIMIT_FSIZE, 1 << 20);
    const SharedMemory memory(2 << 20);
    c.barrier();
  });
  expect_blamed(processes, 2, 1, "ulimit -f allows files of 1048576 bytes");
}

TEST(Refusals, WantOfMemoryToMeetWithIsAKoloError) {
  for (const std::size_t more_bytes : {1 << 18, 1 << 20, 1 << 22, 1 << 23, 12 << 20, 1 << 24, 20 << 20}) {
    Processes processes({.size = 2,
                         .prepare =
                             [&](int rank) {
                               if (rank == 1) allow_addresses(more_bytes);
                             }},
                        [](Communicator& c) { c.barrier(); });
    for (const RankEnd& end : processes.collect(15s)) {
      EXPECT_TRUE(end.exited);
      EXPECT_TRUE(end.code == 0 || end.error.find("Error: ") != std::string::npos)
          << more_bytes << ": " << end.error;
    }
  }
}

TEST(Refusals, NoAddressesToMeetWith) {
  Processes processes({.size = 3,
                       .timeout = 2s,
                       .prepare =
                           [](int rank) {
                             if (rank == 1) allow_addresses(100 << 20);
                           }},
                      [](Communicator& c) { c.barrier(); });
  expect_blamed(processes, 3, 1, "Cannot allocate memory");
}
#endif

}  // namespace
}  // namespace kolo::test
