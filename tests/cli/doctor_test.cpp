// kolo doctor: its report on this machine.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/outcome.hpp"
#include "kolo/memory.hpp"

namespace kolo::test {
namespace {

/// Whether kolo's own memory has huge pages, independent of the kernel's setting.
bool gets_huge_pages() {
  const SharedMemory memory(std::size_t{8} << 20);
  std::memset(memory.data(), 1, memory.size());
  std::ifstream file("/proc/self/smaps");
  std::uint64_t kilobytes = 0;
  for (std::string word; file >> word;) {
    if (word == "ShmemPmdMapped:" && file >> kilobytes && kilobytes > 0) return true;
  }
  return false;
}

TEST(DoctorCommand, ExaminesThisMachine) {
  Command command({KOLO_PROGRAM, "doctor", "--ranks", "3", "--json"}, {{"KOLO_TABLE", "none"}});
  ASSERT_EQ(command.finish(), 0) << command.out() << command.err();
  const auto json = nlohmann::json::parse(command.out());
  EXPECT_EQ(json["size"], 3);
  EXPECT_EQ(json["ranks"].size(), 3u);
  for (const auto& rank : json["ranks"]) EXPECT_EQ(rank["huge_pages"] == "", gets_huge_pages()) << rank;
  EXPECT_EQ(json["dials"].size(), 6u);
  for (const auto& one : json["dials"]) EXPECT_EQ(one["outcome"], "ok") << one;
  ASSERT_EQ(json["pairs"].size(), 3u);
  for (const auto& one : json["pairs"]) {
    EXPECT_EQ(one["error"], "");
    EXPECT_GT(one["there"], 0);
    EXPECT_GT(one["latency_us"], 0);
  }
}

TEST(DoctorCommand, ReportsAProblemWithItsExitCode) {
  // Rank 1 of 2 has the wrong key, so the store refuses it.
  Command command({KOLO_PROGRAM, "run", "-n", "2", "--no-prefix", "sh", "-c",
                   "[ $RANK = 0 ] || export KOLO_KEY=wrong; KOLO_TIMEOUT=5 exec " KOLO_PROGRAM " doctor"});
  EXPECT_EQ(command.finish(), 1) << command.err();
  EXPECT_TRUE(has(command.out(), "problem  rank 1 of 2 did not come")) << command.out();
  EXPECT_TRUE(has(command.err(), "kolo doctor: rank 1 on ")) << command.err();
}

}  // namespace
}  // namespace kolo::test
