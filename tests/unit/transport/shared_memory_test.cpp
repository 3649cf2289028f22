// SharedMemory, and its mappings in peers.
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "kolo/memory.hpp"
#include "transport/shm/regions.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

/// Number of mappings of kolo's shared memory in this process.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:kolo ") != std::string::npos;
  }
  return count;
}

int descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat info {};
    count += ::fstat(fd, &info) == 0;
  }
  return count;
}

TEST(SharedMemory, IsZeroedAlignedAndMovable) {
  SharedMemory memory(100'000);
  EXPECT_EQ(memory.size(), 100'000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
  for (std::size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
  std::byte* const data = memory.data();
  SharedMemory other = std::move(memory);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(memory.data(), nullptr);  // NOLINT: what is left is empty
  EXPECT_EQ(memory.size(), 0u);
  SharedMemory none;
  EXPECT_EQ(none.data(), nullptr);
  SharedMemory empty(0);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_THROW(SharedMemory(~std::size_t{0}), SystemError);
}

TEST(SharedMemory, BuffersMustFit) {
  SharedMemory memory(100);
  EXPECT_EQ(memory.buffer(25, DType::float32).bytes(), 100u);
  EXPECT_THROW(memory.buffer(26, DType::float32), InvalidArgumentError);
  EXPECT_THROW(memory.buffer(~std::uint64_t{0} / 2, DType::float64), InvalidArgumentError);
}

TEST(Regions, AreFoundByAnyRangeInside) {
  auto& regions = transport::shm::Regions::instance();
  const auto a = regions.make(10'000), b = regions.make(1);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto& region = *a.value();
  EXPECT_EQ(regions.find(region.data(), 10'000)->id(), region.id());
  EXPECT_EQ(regions.find(region.data() + 9'000, 1)->id(), region.id());
  EXPECT_EQ(regions.find(region.data(), region.bytes())->id(), region.id());
  EXPECT_EQ(regions.find(region.data() + 1, region.bytes()), nullptr) << "sticks out";
  EXPECT_EQ(regions.find(region.data() + 1, ~std::size_t{0}), nullptr);
  EXPECT_EQ(regions.find(b.value()->data(), 1)->id(), b.value()->id());
  int local = 0;
  EXPECT_EQ(regions.find(&local, sizeof local), nullptr);
  EXPECT_EQ(regions.find(nullptr, 0), nullptr);
}

TEST(Regions, PassedMemoryMustBeWhatItSaysItIs) {
  const auto good = transport::shm::make_memfd("test", 8192);
  ASSERT_TRUE(good.ok());
  const auto mapped = transport::shm::map_memfd(good.value().get(), 8192, false);
  ASSERT_TRUE(mapped.ok());
  ::munmap(mapped.value(), 8192);
  EXPECT_FALSE(transport::shm::map_memfd(good.value().get(), 16384, false).ok())
      << "smaller than it says: SIGBUS";
  EXPECT_FALSE(transport::shm::map_memfd(good.value().get(), 0, false).ok());
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_FALSE(transport::shm::map_memfd(unsealed.get(), 8192, false).ok())
      << "its owner may shrink it: SIGBUS";
  EXPECT_FALSE(transport::shm::map_memfd(0, 8192, false).ok());
  EXPECT_FALSE(transport::shm::map_memfd(-1, 8192, false).ok());
}

TEST(Regions, ThousandsComeAndGoWithoutALeak) {
  Watchdog watchdog(seconds(100));
  Group group = connect_group(kShm, 2);
  ASSERT_TRUE(group.ok());
  const int mapped_before = mappings(), open_before = descriptors();
  std::set<std::uint64_t> ids;
  int most = 0;
  for (int i = 0; i < 3000; ++i) {
    SharedMemory memory(5000);
    std::memset(memory.data(), i & 0xff, memory.size());
    const auto range = group.at(0, 1).expose(memory.data(), memory.size());
    ASSERT_TRUE(range && range->region != 0);
    EXPECT_TRUE(ids.insert(range->region).second) << "an id was used again";
    const auto data = group.at(1, 0).map(*range, memory.size());
    ASSERT_TRUE(data.ok()) << data.status().message();
    ASSERT_EQ(data.value()[4999], static_cast<std::byte>(i & 0xff));
    if (i % 100 == 0) most = std::max(most, mappings());
  }
  EXPECT_LE(most - mapped_before, 10);
  EXPECT_TRUE(group.at(0, 1).drain().ok());  // sends the last notice
  EXPECT_TRUE(group.at(1, 0).drain().ok());  // receives it
  EXPECT_EQ(mappings(), mapped_before);
  EXPECT_EQ(descriptors(), open_before);
}

TEST(Regions, FreedMemoryGoesBackEvenWhilePeersHaveItMapped) {
  Group group = connect_group(kShm, 2);
  ASSERT_TRUE(group.ok());
  auto memory = std::make_unique<SharedMemory>(1 << 20);
  std::memset(memory->data(), 1, memory->size());
  const auto range = group.at(0, 1).expose(memory->data(), memory->size());
  ASSERT_TRUE(range);
  const auto data = group.at(1, 0).map(*range, memory->size());
  ASSERT_TRUE(data.ok());
  const int memfd = ::dup(transport::shm::Regions::instance().find(memory->data(), 1)->fd());
  struct stat info {};
  ASSERT_EQ(::fstat(memfd, &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  memory.reset();
  ASSERT_EQ(::fstat(memfd, &info), 0);
  EXPECT_EQ(info.st_blocks, 0) << "its pages are still there";
  EXPECT_EQ(data.value()[12345], std::byte{0}) << "readable, and empty";
  ::close(memfd);
}

TEST(Regions, MoreThanTheMachineHasIsRefusedAtOnce) {
  const auto before = Clock::now();
  EXPECT_THROW(SharedMemory(std::size_t{1} << 46), SystemError);
  EXPECT_LT(Clock::now() - before, seconds(5));
}

// A thread that looks up another address may hold the last reference to a region for a moment, and so free
// it.
TEST(Regions, MayBeFreedWhileAnotherThreadLooks) {
  Watchdog watchdog(seconds(100));
  const SharedMemory highest(4096);
  void* const other = ::mmap(highest.data() - 4096, 4096, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(other, MAP_FAILED);
  std::atomic<bool> stop{false};
  std::thread looking([&] {
    while (!stop) EXPECT_EQ(transport::shm::Regions::instance().find(other, 4096), nullptr);
  });
  for (int i = 0; i < 20'000; ++i) SharedMemory memory(4096);
  stop = true;
  looking.join();
  ::munmap(other, 4096);
}

TEST(Regions, ManyAtOnceWithAPeerThatDoesNotListen) {
  Watchdog watchdog(seconds(100));
  Group group = connect_group(kShm, 2);
  ASSERT_TRUE(group.ok());
  std::vector<SharedMemory> memories;
  std::vector<transport::RemoteRange> ranges;
  for (int i = 0; i < 600; ++i) {  // more notices than a socket can queue
    memories.emplace_back(4096);
    memories.back().data()[0] = static_cast<std::byte>(i);
    const auto range = group.at(0, 1).expose(memories.back().data(), 4096);
    if (range) ranges.push_back(*range);
  }
  ASSERT_GT(ranges.size(), 10u);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::byte first{};
    ASSERT_TRUE(group.at(1, 0).fetch(ranges[i], {&first, 1}).ok()) << i;
    if (ranges.size() == memories.size()) {
      EXPECT_EQ(first, static_cast<std::byte>(i));
    }
  }
}

}  // namespace
}  // namespace kolo::testing
