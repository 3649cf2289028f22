// Cores: the number that several processes may use together.
#include "base/cores.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

namespace fs = std::filesystem;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

TEST(Cores, ThoseOfThisThread) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(usable_cores().set.count(), static_cast<std::size_t>(CPU_COUNT(&all)));
  std::thread([&] {
    std::size_t last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &all)) --last;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores().count(), 1);
    EXPECT_TRUE(usable_cores().set.test(last));
  }).join();
}

TEST(Cores, TextComesBack) {
  for (const char* text : {"0", "0-3", "0-3,8", "5,7-8,8191", "0-63/2.5", "1/0.5", ""}) {
    EXPECT_EQ(to_text(parse_cores(text)), text);
  }
}

TEST(Cores, NonsenseIsNoCores) {
  for (const char* text : {"x", "0-", "-1", "0-8192", "99999999999999999999", "0-1/", "0-1/x", "0-1/2x",
                           "0-1/-2", "0-1/nan", "0;1", "0-1-2", "1 2"}) {
    EXPECT_TRUE(parse_cores(text).set.none()) << text;
    EXPECT_EQ(parse_cores(text).count(), 1) << text;
  }
}

TEST(Cores, AQuotaCountsWholeCores) {
  EXPECT_EQ(parse_cores("0-7/2.5").count(), 2);
  EXPECT_EQ(parse_cores("0-7/0.5").count(), 1);
  EXPECT_EQ(parse_cores("0-1/16").count(), 2);
}

bool oversubscribed(const std::string& own, const std::vector<std::string>& others) {
  std::vector<Cores> beside;
  for (const std::string& text : others) beside.push_back(parse_cores(text));
  return processes_a_core(parse_cores(own), beside) > 1;
}

TEST(Cores, AreSharedWhereProcessesOutnumberThem) {
  EXPECT_FALSE(oversubscribed("0", {}));
  EXPECT_FALSE(oversubscribed("0-1", {"0-1"}));
  EXPECT_TRUE(oversubscribed("0-1", {"0-1", "0-1"}));
}

TEST(Cores, OfProcessesBoundApartAreNotShared) {
  EXPECT_FALSE(oversubscribed("2", {"0", "1", "3"}));
  EXPECT_FALSE(oversubscribed("2-3", {"0-1", "0-1", "2-3"})) << "bound to sockets";
  EXPECT_TRUE(oversubscribed("0", {"0", "1"}));
  EXPECT_FALSE(oversubscribed("1", {"0", "0"})) << "only the others are on one core";
  EXPECT_TRUE(oversubscribed("0", {"0", "0-7"})) << "two on one core, whatever else a third may use";
  EXPECT_TRUE(oversubscribed("0-1", {"0-1", "0-1", "1-7"}));
}

TEST(Cores, UnknownOnesMayBeTheSame) {
  EXPECT_FALSE(oversubscribed("", {}));
  EXPECT_TRUE(oversubscribed("", {""})) << "better slow than spinning for each other";
  EXPECT_TRUE(oversubscribed("0", {""}));
}

/// A folder with the layout of /sys/fs/cgroup, and a /proc/self/cgroup.
class Cgroup : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text << '\n';
  }
  double quota(const std::string& membership) const {
    write("membership", membership);
    return cgroup_quota(mount_ / "membership", mount_);
  }

  test::TemporaryFolder folder_;
  const fs::path& mount_ = folder_.path();
};

TEST_F(Cgroup, OfVersion2) {
  write("a/cpu.max", "400000 100000");
  write("a/b/cpu.max", "150000 100000");
  write("a/b/c/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/a"), 4);
  EXPECT_EQ(quota("0::/a/b/c"), 1.5) << "the smallest on the way";
  EXPECT_EQ(quota("0::/"), kNoQuota);
}

TEST_F(Cgroup, OfVersion1) {
  write("cpu,cpuacct/a/cpu.cfs_quota_us", "50000");
  write("cpu,cpuacct/a/cpu.cfs_period_us", "25000");
  write("cpu,cpuacct/b/cpu.cfs_quota_us", "-1");
  write("cpu,cpuacct/b/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("3:cpuset:/\n2:cpu,cpuacct:/a\n0::/"), 2);
  EXPECT_EQ(quota("2:cpu,cpuacct:/b"), kNoQuota);
  EXPECT_EQ(quota("2:cpuset:/a"), kNoQuota) << "another controller's group";
}

TEST_F(Cgroup, InAContainerIsTheMountItself) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota("0::/"), 2);
  EXPECT_EQ(quota("0::/kubepods/pod1/outside"), 2) << "a path that is not seen from inside";
}

TEST_F(Cgroup, NonsenseIsNoQuota) {
  for (const char* text : {"", "x", "0 100000", "100000", "100000 0", "-5 100000"}) {
    write("cpu.max", text);
    EXPECT_EQ(quota("0::/"), kNoQuota) << text;
  }
  EXPECT_EQ(quota("nonsense\n::\n"), kNoQuota);
  EXPECT_EQ(cgroup_quota(mount_ / "nothing", mount_ / "nowhere"), kNoQuota);
}

}  // namespace
}  // namespace kolo
