// The amount of free memory, from files in the system's format.
#include "base/free_memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

class FreeMemory : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text << '\n';
  }
  std::uint64_t allowed(const std::string& membership, std::uint64_t swap_free = 0) const {
    write("membership", membership);
    return cgroup_free_memory(mount_ / "membership", mount_, swap_free);
  }

  test::TemporaryFolder folder_;
  const fs::path& mount_ = folder_.path();
};

TEST_F(FreeMemory, OfTheSystem) {
  write("meminfo", "MemTotal: 100 kB\nMemAvailable:  30 kB\nSwapFree: 12 kB\nHugePages_Total:       0");
  EXPECT_EQ(system_free_memory(mount_ / "meminfo"), 42u << 10);
  EXPECT_EQ(system_free_memory(mount_ / "nothing"), kUnknown);
}

TEST_F(FreeMemory, OfAGroupOfVersion2) {
  write("a/memory.max", "1000");
  write("a/memory.current", "700");
  write("a/memory.stat", "anon 500\nfile 200\nshmem 50\ninactive_file 100\nactive_file 50");
  write("a/b/memory.max", "max");
  write("a/b/memory.high", "600");
  write("a/b/memory.current", "500");
  EXPECT_EQ(allowed("0::/a"), 450u);
  EXPECT_EQ(allowed("0::/a/b"), 100u) << "the least on the way";
  EXPECT_EQ(allowed("0::/c"), kUnknown);
  EXPECT_EQ(allowed("0::/a", 5), 455u);
  write("a/memory.swap.max", "30");
  write("a/memory.swap.current", "28");
  EXPECT_EQ(allowed("0::/a", 5), 452u) << "the group may swap less than the system can";
}

TEST_F(FreeMemory, OfAGroupOfVersion1) {
  write("memory/a/memory.limit_in_bytes", "1000");
  write("memory/a/memory.usage_in_bytes", "700");
  write("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20");
  EXPECT_EQ(allowed("4:memory:/a\n1:cpu:/b"), 350u);
  EXPECT_EQ(allowed("4:cpu:/a"), kUnknown) << "another controller's group";
  EXPECT_EQ(allowed("4:memory:/a", 100), 450u);
  write("memory/a/memory.memsw.limit_in_bytes", "1100");
  write("memory/a/memory.memsw.usage_in_bytes", "750");
  EXPECT_EQ(allowed("4:memory:/a", 100), 400u);
}

TEST_F(FreeMemory, InAContainerIsTheMountItself) {
  write("memory.max", "1000");
  write("memory.current", "2000");
  EXPECT_EQ(allowed("0::/kubepods/pod1/outside"), 0u) << "beyond the limit there is nothing";
}

TEST_F(FreeMemory, OfThisProcessIsKnown) {
  EXPECT_GT(free_memory(), 0u);
  EXPECT_LT(free_memory(), kUnknown);
}

}  // namespace
}  // namespace kolo
