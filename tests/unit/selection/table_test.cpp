// The tuning table and its file.
#include "selection/table.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

class TableFile : public testing::Test {
 protected:
  std::string write(const std::string& text) const {
    std::ofstream(folder_ / "table") << text;
    return folder_ / "table";
  }

  test::TemporaryFolder folder_;
};

selection::TuningTable example() {
  selection::TuningTable table;
  selection::CostModel model = selection::typical_cost_model();
  model.memory.latency = 1.0 / 3;
  table.set_model({"shm", "4"}, model);
  table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 8, "ring", 1e-6);
  table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 8, "k_nomial:radix=4", 2e-6);
  table.set_time({"tcp", "1+1"}, schedule::Collective::broadcast, 1024, "binomial", 3e-6);
  table.set_bandwidth("10.0.0.1", "fd00::2", 1.25e8);
  return table;
}

TEST_F(TableFile, ComesBackAsItWasWritten) {
  const std::string path = folder_ / "not/yet/there/table";
  ASSERT_TRUE(selection::write_table(path, example()).ok());
  const auto read = selection::read_table(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().text(), example().text());
  EXPECT_EQ(read.value().model({"shm", "4"})->memory.latency, 1.0 / 3);
  EXPECT_EQ(read.value().model({"tcp", "4"}), std::nullopt);
  const auto* times = read.value().times({"shm", "4"}, schedule::Collective::all_reduce);
  ASSERT_NE(times, nullptr);
  EXPECT_EQ(times->at(8).at("k_nomial:radix=4"), 2e-6);
  EXPECT_EQ(read.value().times({"shm", "4"}, schedule::Collective::broadcast), nullptr);
  EXPECT_EQ(read.value().bandwidth("10.0.0.1", "fd00::2"), 1.25e8);
  EXPECT_EQ(read.value().bandwidth("fd00::2", "10.0.0.1"), std::nullopt);
}

TEST_F(TableFile, IsEmptyWhereThereIsNone) {
  const auto none = selection::read_table(folder_ / "table");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none.value().empty());
}

TEST_F(TableFile, IsReplacedAsAWhole) {
  const std::string path = write("garbage");
  ASSERT_TRUE(selection::write_table(path, example()).ok());
  EXPECT_TRUE(selection::read_table(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  EXPECT_FALSE(selection::write_table("/proc/kolo/table", example()).ok());
}

TEST_F(TableFile, SaysWhichLineMakesNoSense) {
  for (const char* line :
       {"nonsense", "time shm 4 all_reduce 8 ring", "time shm 4 all_reduce 8 ring -1",
        "time shm 4 all_reduce 8 ring 0", "time shm 4 all_reduce x ring 1",
        "time shm 4 no_collective 8 ring 1", "time shm 4 all_reduce 8 ring 1 1",
        "time shm 4 all_reduce 8 ring nan", "bandwidth a b", "bandwidth a b inf", "bandwidth a b 1 2",
        "model shm 4", "model shm 4 1 2 3", "model shm 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0 1",
        "model shm 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1e9 1",
        "model shm 4 1e308 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "model shm 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2e15", "model shm 4 1 1 1 1 1 1 1 1 1 1 1 1 1 inf 1 1 1",
        "model shm 4 1 1 1 1 1 1 1 1 1 1 1 1 1 nan 1 1 1"}) {
    const auto read =
        selection::read_table(write(std::string("kolo-table 1\n# for people\n\n") + line + "\n"));
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_NE(read.status().message().find("line 4: this makes no sense"), std::string::npos)
        << read.status().message();
  }
  EXPECT_FALSE(selection::read_table(write("")).ok());
  EXPECT_FALSE(selection::read_table(write("kolo-table 2\n")).ok());
}

TEST_F(TableFile, IsARegularFileOfReasonableSize) {
  EXPECT_FALSE(selection::read_table("/dev/zero").ok());
  EXPECT_FALSE(selection::read_table(folder_.path()).ok());
}

TEST_F(TableFile, KeepsWhatSeveralWritersAdd) {
  const std::string path = folder_ / "table";
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < 10; ++i) {
        const Status status = selection::update_table(path, [&](selection::TuningTable& table) {
          table.set_bandwidth(std::to_string(w), std::to_string(i), 1);
        });
        EXPECT_TRUE(status.ok()) << status.message();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto table = selection::read_table(path);
  ASSERT_TRUE(table.ok()) << table.status().message();
  for (int w = 0; w < 4; ++w) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(table.value().bandwidth(std::to_string(w), std::to_string(i)).has_value()) << w << " " << i;
    }
  }
}

TEST(TuningTable, TakesNothingThatItCouldNotRead) {
  selection::TuningTable table = example();
  const std::string before = table.text();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {0.0, -1.0, 1e-13, 2.7e17, kInfinity, std::nan("")}) {
    EXPECT_FALSE(table.set_bandwidth("a", "b", number)) << number;
    EXPECT_FALSE(table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 8, "ring", number)) << number;
  }
  EXPECT_FALSE(table.set_bandwidth("a b", "c", 1));
  EXPECT_FALSE(table.set_bandwidth("a", "", 1));
  EXPECT_FALSE(table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 8, "a ring", 1));
  EXPECT_FALSE(table.set_time({"", "4"}, schedule::Collective::all_reduce, 8, "ring", 1));
  for (const double number : {-1.0, 1e16, kInfinity, std::nan("")}) {
    selection::CostModel model = selection::typical_cost_model();
    model.network.latency = number;
    EXPECT_FALSE(table.set_model({"shm", "4"}, model)) << number;
  }
  EXPECT_EQ(table.text(), before);
  EXPECT_TRUE(table.set_bandwidth("a", "b", 1e15));
  EXPECT_TRUE(selection::TuningTable::parse(table.text()).ok());
}

TEST(TuningTable, ForgetsOneCollectiveOfOneSetting) {
  selection::TuningTable table = example();
  table.forget({"shm", "4"}, schedule::Collective::all_reduce);
  EXPECT_EQ(table.times({"shm", "4"}, schedule::Collective::all_reduce), nullptr);
  EXPECT_NE(table.times({"tcp", "1+1"}, schedule::Collective::broadcast), nullptr);
}

TEST(CostModel, ComesBackExactly) {
  selection::CostModel model = selection::typical_cost_model();
  model.network.latency = 1.0 / 7;
  EXPECT_EQ(selection::cost_model_from_text(selection::to_text(model)).value(), model);
  for (const char* bad :
       {"", "1", "x", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 -1"}) {
    EXPECT_FALSE(selection::cost_model_from_text(bad).ok()) << bad;
  }
}

TEST(Layout, NamesTheRanksOnEachHost) {
  EXPECT_EQ(selection::layout_of({}, 4), "4");
  EXPECT_EQ(selection::layout_of({0, 1, 0, 1, 2}, 5), "2+2+1");
}

}  // namespace
}  // namespace kolo
