#include "bench/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/machine.hpp"
#include "text/columns.hpp"

namespace kolo::bench {
namespace {

constexpr std::size_t kWidth = cli::kTerminalWidth;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Row sample_row(const std::string& library, std::uint64_t bytes, double us, std::uint64_t wrong = 0) {
  const Case what = make_case(Kind::all_reduce, bytes, 4, DType::bfloat16, ReduceOp::product, true);
  return make_row(library, "shm", "shared", what, {"ring", {us, us, 4 * us}, wrong});
}

Heading sample_heading(std::vector<std::string> peers) {
  return {"1.2.3",  {"A Processor", 64, 256, "Linux 6.1"}, "shm",
          "shared", sample_row("kolo", 8, 1).what,         peers};
}

void expect_aligned(const Table& table, const std::vector<std::optional<Row>>& peers) {
  std::string text = table.heading();
  for (const std::uint64_t bytes : {std::uint64_t{2}, std::uint64_t{67108862}, std::uint64_t{1} << 33}) {
    for (const double least : {0.31, 99.994, 9999.94, 1234567.0}) {
      const double us = std::max(least, static_cast<double>(bytes) / 1e6);  // not beyond 1000 GB/s
      text += table.row(sample_row("kolo", bytes, us), sample_row("rewrite", bytes, us / 2), peers);
    }
  }
  const auto lines = lines_of(text);
  std::size_t first = 0;  // after the lines of prose in the heading
  while (lines[first].find("algorithm") == std::string::npos) ++first;
  for (std::size_t i = first + 2; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].size(), lines[first].size()) << lines[i];
    EXPECT_LE(lines[i].size(), kWidth);
  }
}

TEST(BenchTable, LinesUp) {
  expect_aligned(Table(sample_heading({})), {});
}

TEST(BenchTable, LinesUpWithPeers) {
  const std::vector<std::optional<Row>> peers = {sample_row("gloo", 8, 123.4), std::nullopt,
                                                 sample_row("mpich", 8, 1234567.0, 3),
                                                 sample_row("limit", 8, 0.17)};
  expect_aligned(Table(sample_heading({"gloo", "openmpi", "mpich", "limit"})), peers);
  expect_aligned(Table(sample_heading({"exchange", "exchange"})),
                 {sample_row("exchange", 8, 99.5), std::nullopt});
}

TEST(BenchTable, ShowsAllColumnsIfWide) {
  Heading heading = sample_heading({});
  const auto has = [&](const char* column) {
    return Table(heading).heading().find(column) != std::string::npos;
  };
  for (const char* column : {" time", " mean", " p99", " algbw", " busbw", " wrong"})
    EXPECT_TRUE(has(column));
  for (const char* column : {" redop", " count", " +-"}) EXPECT_FALSE(has(column)) << column;
  heading.wide = true;
  for (const char* column : {" redop", " count", " +-"}) EXPECT_TRUE(has(column)) << column;
}

TEST(BenchTable, KeepsTheRatiosOfManyPeers) {
  const std::vector<std::string> peers = {"gloo", "openmpi", "mpich", "limit"};
  Heading heading = sample_heading(peers);
  const auto line = [&] {
    return Table(heading).row(
        sample_row("kolo", 8, 10), std::nullopt,
        {sample_row("gloo", 8, 25), std::nullopt, sample_row("mpich", 8, 31), sample_row("limit", 8, 5)});
  };
  for (const char* ratio : {" 2.50x", " -", " 3.10x", " 0.50x"})
    EXPECT_NE(line().find(ratio), std::string::npos) << line();
  EXPECT_EQ(line().find("25.00"), std::string::npos) << line();
  heading.wide = true;
  EXPECT_NE(line().find("25.00"), std::string::npos) << line();
}

TEST(BenchTable, LongNamesAreCutShort) {
  for (const std::vector<std::string>& peers : {std::vector<std::string>{}, {"gloo"}}) {
    const Table table(sample_heading(peers));
    Row row = sample_row("kolo", 8, 10);
    const auto line = [&] { return table.row(row, std::nullopt, {peers.size(), std::nullopt}); };
    const std::size_t width = line().size();
    row.algorithm = "double_tree:chunks=16";
    EXPECT_EQ(line().size(), width);
    EXPECT_NE(line().find("double_tree:.."), std::string::npos) << line();
  }
}

TEST(BenchTable, ManyPeersTakeTheRoomOfTheName) {
  const std::vector<std::string> peers = {"openmpi5", "mpich5", "intelmpi", "oneccl", "gloo", "limit"};
  const Table table(sample_heading(peers));
  const std::string line = table.row(sample_row("kolo", 8, 10), std::nullopt, {peers.size(), std::nullopt});
  EXPECT_LE(line.size(), kWidth + 1) << line;
  EXPECT_EQ(line.find("ring"), std::string::npos) << line;
}

TEST(BenchTable, TheHeadingTellsHowManyTensors) {
  Heading heading = sample_heading({});
  EXPECT_EQ(Table(heading).heading().find("tensor"), std::string::npos);
  heading.what.tensors = 200;
  EXPECT_NE(Table(heading).heading().find("200 tensors at once"), std::string::npos);
}

TEST(BenchTable, SeveralCallsABarrierAreComparedByTheirMeans) {
  Heading heading = sample_heading({"gloo"});
  EXPECT_EQ(Table(heading).heading().find("barrier"), std::string::npos);
  heading.what.steps = 10;
  EXPECT_NE(Table(heading).heading().find("10 calls a barrier"), std::string::npos);
  const auto row = [&](std::vector<double> us) {
    return make_row("kolo", "shm", "shared", heading.what, {"ring", std::move(us), 0});
  };
  const std::string line = Table(heading).row(row({1, 1, 7}), std::nullopt, {row({1, 1, 16})});
  EXPECT_NE(line.find(" 3.00 "), std::string::npos) << line;
  EXPECT_NE(line.find(" 2.00x"), std::string::npos) << line;
  EXPECT_EQ(nlohmann::json::parse(row_line(row({1, 1, 7}))).at("calls_a_barrier"), 10);
}

TEST(BenchTable, TheHeadingTellsOfComputing) {
  Heading heading = sample_heading({});
  EXPECT_EQ(Table(heading).heading().find("computing"), std::string::npos);
  heading.what.compute_ms = 0.2;
  EXPECT_NE(Table(heading).heading().find("0.2 ms of computing"), std::string::npos);
}

TEST(BenchTable, TheHeadingTellsOfNeighbours) {
  Heading heading = sample_heading({});
  EXPECT_EQ(Table(heading).heading().find("busy"), std::string::npos);
  heading.neighbours.count = 2;
  EXPECT_NE(Table(heading).heading().find("2 busy processes."), std::string::npos);
  heading.neighbours.blip_us = {200, 3000};
  EXPECT_NE(Table(heading).heading().find("2 busy processes, 200 us of 3000."), std::string::npos);
}

TEST(BenchTable, RatioIsThePeersTimeOverKolos) {
  const Table table(sample_heading({"gloo"}));
  EXPECT_NE(table.row(sample_row("kolo", 8, 10), std::nullopt, {sample_row("gloo", 8, 25)}).find("2.50x"),
            std::string::npos);
  EXPECT_NE(table.row(sample_row("kolo", 8, 10), std::nullopt, {sample_row("gloo", 8, 25, 1)}).find("2.50!"),
            std::string::npos);
}

TEST(BenchTable, WrongResultsAreSaidAloud) {
  const Table table(sample_heading({}));
  EXPECT_NE(table.footer(3, 10, 8).find("3 WRONG RESULTS"), std::string::npos);
  EXPECT_EQ(table.footer(0, 10, 8).find("WRONG"), std::string::npos);
}

TEST(BenchJson, ALineHasAllFields) {
  const auto json = nlohmann::json::parse(row_line(sample_row("kolo", 1024, 12.5, 2)));
  EXPECT_EQ(json.at("type"), "result");
  EXPECT_EQ(json.at("library"), "kolo");
  EXPECT_EQ(json.at("collective"), "all_reduce");
  EXPECT_EQ(json.at("algorithm"), "ring");
  EXPECT_EQ(json.at("transport"), "shm");
  EXPECT_EQ(json.at("memory"), "shared");
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("bytes"), 1024);
  EXPECT_EQ(json.at("dtype"), "bfloat16");
  EXPECT_EQ(json.at("median_us"), 12.5);
  EXPECT_EQ(json.at("mean_us"), 25);
  EXPECT_EQ(json.at("mean_low_us"), 12.5);
  EXPECT_EQ(json.at("mean_high_us"), 50);
  EXPECT_EQ(json.at("min_us"), 12.5);
  EXPECT_EQ(json.at("p95_us"), 50);
  EXPECT_EQ(json.at("p99_us"), 50);
  EXPECT_EQ(json.at("tensors"), 1);
  EXPECT_EQ(json.at("iterations"), 3);
  EXPECT_EQ(json.at("algbw_GBps"), 0.08192);
  EXPECT_EQ(json.at("busbw_GBps"), 0.12288);
  EXPECT_EQ(json.at("wrong"), 2);
  EXPECT_FALSE(json.contains("version"));
  Row peer = sample_row("openmpi5", 1024, 12.5);
  peer.version = "Open MPI v5.0.11";
  peer.settings = "--mca btl sm,self";
  const auto of_peer = nlohmann::json::parse(row_line(peer));
  EXPECT_EQ(of_peer.at("version"), peer.version);
  EXPECT_EQ(of_peer.at("settings"), peer.settings);
}

TEST(BenchJson, SmallBandwidthsKeepTheirDigits) {
  const auto json = nlohmann::json::parse(row_line(sample_row("kolo", 64, 367)));
  EXPECT_DOUBLE_EQ(json.at("algbw_GBps"), 0.000174387);
  EXPECT_EQ(nlohmann::json::parse(row_line(sample_row("kolo", 0, 367))).at("algbw_GBps"), 0);
}

TEST(BenchJson, TheChoiceHasALine) {
  const Case what = sample_row("kolo", 1024, 1).what;
  const auto json = nlohmann::json::parse(choice_line(what, "ring", "direct", {1.25, 1.125, 1.5}));
  EXPECT_EQ(json.at("type"), "choice");
  EXPECT_EQ(json.at("collective"), "all_reduce");
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("bytes"), 1024);
  EXPECT_EQ(json.at("choice"), "ring");
  EXPECT_EQ(json.at("fastest"), "direct");
  EXPECT_EQ(json.at("regret"), 0.25);
  EXPECT_EQ(json.at("regret_low"), 0.125);
  EXPECT_EQ(json.at("regret_high"), 0.5);
}

TEST(BenchJson, TheMachineHasALine) {
  const auto json =
      nlohmann::json::parse(machine_line({"A Processor", 64, 256, "Linux 6.1"}, "1.2.3", {2, {}}));
  EXPECT_EQ(json.at("type"), "machine");
  EXPECT_EQ(json.at("cpu"), "A Processor");
  EXPECT_EQ(json.at("cores"), 64);
  EXPECT_EQ(json.at("kernel"), "Linux 6.1");
  EXPECT_EQ(json.at("neighbours"), 2);
  EXPECT_FALSE(json.contains("blip_us"));
  const auto beside = nlohmann::json::parse(machine_line({}, "1.2.3", {2, {200, 3000}}));
  EXPECT_EQ(beside.at("blip_us"), (std::vector<int>{200, 3000}));
}

}  // namespace
}  // namespace kolo::bench
