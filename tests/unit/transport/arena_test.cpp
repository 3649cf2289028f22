// SharedArena: blocks, their memory, and failures to get more memory.
#include "kolo/arena.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/memory.hpp"
#include "transport/shm/free_ranges.hpp"
#include "transport/shm/regions.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
using Block = std::shared_ptr<std::byte[]>;

std::uintptr_t address(const Block& block) {
  return reinterpret_cast<std::uintptr_t>(block.get());
}

TEST(FreeRanges, FirstFitAndNeighboursMerge) {
  transport::shm::FreeRanges ranges(1000);
  EXPECT_TRUE(ranges.untouched());
  EXPECT_EQ(ranges.take(100, 1, 0), 0u);
  EXPECT_EQ(ranges.take(100, 64, 10), 138u) << "aligned, with a phase";
  EXPECT_EQ(ranges.take(38, 1, 0), 100u) << "in the gap";
  EXPECT_EQ(ranges.take(763, 1, 0), std::nullopt);
  EXPECT_EQ(ranges.take(762, 1, 0), 238u);
  EXPECT_EQ(ranges.take(1, 1, 0), std::nullopt);
  ranges.give_back(0, 100);
  ranges.give_back(138, 100);
  EXPECT_EQ(ranges.take(101, 1, 0), std::nullopt) << "two holes that do not touch";
  ranges.give_back(100, 38);
  EXPECT_EQ(ranges.take(238, 1, 0), 0u);
  ranges.give_back(238, 762);
  ranges.give_back(0, 238);
  EXPECT_TRUE(ranges.untouched());
}

TEST(SharedArena, BlocksAreAlignedApartAndKnownAsSharedMemory) {
  SharedArena arena;
  std::vector<std::pair<Block, std::size_t>> blocks;
  for (const std::size_t bytes : {0, 1, 64, 65, 4096, 100'000, 2 << 20, 5 << 20, 3, 100 << 20}) {
    blocks.emplace_back(arena.allocate(bytes), bytes);
    const Block& block = blocks.back().first;
    EXPECT_EQ(address(block) % 64, 0u);
    if (bytes >= 2 * kMiB) {
      EXPECT_LT(address(block) % (2 * kMiB), 4096u);
    }
    std::memset(block.get(), static_cast<int>(blocks.size()), bytes);
    if (bytes != 0) {
      EXPECT_TRUE(is_shared(block.get(), bytes));
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& [block, bytes] = blocks[i];
    const auto mark = static_cast<std::byte>(i + 1);
    if (bytes == 0) continue;
    EXPECT_TRUE(block[0] == mark && block[bytes / 2] == mark && block[bytes - 1] == mark) << bytes;
  }
  EXPECT_EQ(arena.usage().blocks, blocks.size());
  EXPECT_EQ(arena.usage().regions, 2u) << "one of the usual length and one for the long block";
}

TEST(SharedArena, LargeBlocksStartAtDifferentLines) {
  SharedArena arena;
  std::vector<Block> blocks;
  std::set<std::uintptr_t> starts;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(arena.allocate(2 * kMiB));
    starts.insert(address(blocks.back()) % 4096 / 64);
  }
  EXPECT_EQ(starts.size(), 8u);
}

TEST(SharedArena, MemoryIsUsedAgainAndEmptyRegionsGo) {
  SharedArena arena(4 * kMiB);
  Block first = arena.allocate(1000);
  std::byte* const where = first.get();
  first.reset();
  EXPECT_EQ(arena.usage().blocks, 0u);
  EXPECT_EQ(arena.usage().regions, 1u) << "one is kept";
  first = arena.allocate(1000);
  EXPECT_EQ(first.get(), where);

  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(arena.allocate(3 * kMiB));
  EXPECT_GE(arena.usage().regions, 10u);
  EXPECT_GE(arena.usage().block_bytes, 30 * kMiB);
  blocks.clear();
  EXPECT_LE(arena.usage().regions, 2u);
  first.reset();
  EXPECT_EQ(arena.usage().regions, 1u);
  EXPECT_EQ(arena.usage().block_bytes, 0u);
}

TEST(SharedArena, ABlockKeepsItsMemoryWhenTheArenaIsGone) {
  auto arena = std::make_unique<SharedArena>();
  Block block = arena->allocate(1000);
  arena.reset();
  std::memset(block.get(), 7, 1000);
  EXPECT_EQ(block[999], std::byte{7});
  const void* const data = block.get();
  block.reset();
  EXPECT_FALSE(is_shared(data, 1)) << "the region went with its last block";
}

TEST(SharedArena, ThreadsNeverShareABlock) {
  SharedArena arena(4 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> damaged{0};
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<Block, std::size_t>> mine;
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 1 + random() % 50'000;
        mine.emplace_back(arena.allocate(bytes), bytes);
        std::memset(mine.back().first.get(), t, bytes);
        if (mine.size() < 10) continue;
        const std::size_t victim = random() % mine.size();
        const auto& [block, size] = mine[victim];
        for (std::size_t at = 0; at < size; ++at) damaged += block[at] != static_cast<std::byte>(t);
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(arena.usage().blocks, 0u);
}

TEST(SharedArena, AForkAllocatesWhateverOtherThreadsWereAt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own locks do not survive such a fork";
#else
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) SharedArena::instance().allocate(4096);
  });
  int hung = 0;
  for (int i = 0; i < 100 && hung == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const Block block = SharedArena::instance().allocate(4096);
      block[0] = std::byte{1};
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    hung += status != 0;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(hung, 0);
#endif
}

TEST(SharedArena, ThousandsOfBlocksTakeFewDescriptors) {
  SharedArena arena;
  std::vector<Block> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(arena.allocate(4096));
  EXPECT_EQ(arena.usage().regions, 1u);
}

/// Runs `body` in a child process, so that its limits and forks do not affect this one. Returns whether it
/// returned true.
template <typename Body>
bool in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The sanitizers need all addresses, and descriptors to inspect memory.
/// Whether an allocation under the limit throws a SystemError, and succeeds without the limit.
bool fails_cleanly(int resource, rlim_t limit) {
  SharedArena arena;
  rlimit before{};
  ::getrlimit(resource, &before);
  const rlimit lowered{limit, before.rlim_max};
  if (::setrlimit(resource, &lowered) != 0) return false;
  bool threw = false;
  try {
    arena.allocate(128 * kMiB);
  } catch (const SystemError&) {
    threw = true;
  }
  ::setrlimit(resource, &before);
  return threw && arena.usage().regions == 0 && arena.allocate(1000) != nullptr;
}

TEST(SharedArena, NoDescriptorIsASystemError) {
  EXPECT_TRUE(in_child([] { return fails_cleanly(RLIMIT_NOFILE, 3); }));
}

TEST(SharedArena, NoAddressesAreASystemError) {
  EXPECT_TRUE(in_child([] { return fails_cleanly(RLIMIT_AS, 64 * kMiB); }));
}
#endif

TEST(SharedArena, AbsurdSizesAreASystemError) {
  SharedArena arena;
  EXPECT_THROW(arena.allocate(~std::size_t{0}), SystemError);
  EXPECT_THROW(arena.allocate(~std::size_t{0} / 2), SystemError);
  EXPECT_THROW(arena.allocate(~std::size_t{0} / 8), SystemError);
  EXPECT_EQ(arena.usage().regions, 0u);
}

TEST(SharedArena, AForkedChildTakesNothingOfItsParents) {
  SharedArena arena;
  Block kept = arena.allocate(1000);
  std::memset(kept.get(), 1, 1000);
  EXPECT_TRUE(in_child([&] {
    const Block own = arena.allocate(1000);
    std::memset(own.get(), 2, 1000);
    kept[999] = std::byte{2};
    kept.reset();  // the child's copy
    return arena.usage().blocks == 1;
  }));
  const Block next = arena.allocate(1000);
  EXPECT_NE(next.get(), kept.get());
  EXPECT_EQ(kept[0], std::byte{1});
  EXPECT_EQ(kept[999], std::byte{1});
}

/// Bytes of the mapping at `data` that are in huge pages.
std::size_t huge_bytes(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<std::uintptr_t>(data);
      inside = begin <= at && at < end;
    } else if (inside && std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1) {
      return kib * 1024;
    }
  }
  return 0;
}

TEST(HugePages, OfBothTheOwnerAndThePeer) {
  constexpr std::size_t kBytes = 64 * kMiB;
  const SharedMemory memory(kBytes);
  const auto region = transport::shm::Regions::instance().find(memory.data(), kBytes);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % (2 * kMiB), 0u);
  const auto mapped = transport::shm::map_memfd(region->fd(), kBytes, false);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped.value()) % (2 * kMiB), 0u);
  std::size_t nonzero = 0;
  for (std::size_t at = 0; at < kBytes; at += 4096) nonzero += mapped.value()[at] != std::byte{0};
  EXPECT_EQ(nonzero, 0u);
  const std::size_t owners = huge_bytes(memory.data()), peers = huge_bytes(mapped.value());
  ::munmap(mapped.value(), kBytes);
  if (owners == 0) GTEST_SKIP() << "this system grants no huge pages";
  EXPECT_GE(owners, kBytes / 2);
  EXPECT_EQ(peers, owners);
}

}  // namespace
}  // namespace kolo::testing
