// kolo plan, kolo tune and kolo bench --algorithm all as a user runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "cli/outcome.hpp"
#include "kolo/kolo.hpp"
#include "selection/table.hpp"
#include "support/temporary_folder.hpp"
#include "tune/bandwidth.hpp"

namespace kolo::test {
namespace {

ProgramOutcome run(std::vector<std::string> arguments, const std::string& table = "none") {
  return run_kolo(std::move(arguments), {{"KOLO_TABLE", table}});
}

// In a folder of its own, because the table's lock is beside it.
struct TableFile {
  TemporaryFolder folder;
  std::string path = folder / "table";
};

nlohmann::json plan(std::vector<std::string> arguments, const std::string& table = "none") {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const ProgramOutcome outcome = run(std::move(arguments), table);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

TEST(Plan, RanksEveryAlgorithmByItsTime) {
  const auto answer = plan({"all_reduce", "--ranks", "8", "--bytes", "1M", "--links", "tcp"});
  EXPECT_EQ(answer.at("bytes"), 1 << 20);
  EXPECT_EQ(answer.at("ranks"), 8);
  std::vector<double> times;
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& line : answer.at("ranking")) {
    times.push_back(line.at("seconds"));
    by_name[line.at("algorithm")] = line;
    EXPECT_EQ(line.at("measured"), false);
  }
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective == schedule::Collective::all_reduce) {
      EXPECT_TRUE(by_name.contains(std::string(algorithm.name))) << algorithm.name;
    }
  }
  EXPECT_EQ(by_name["ring"].at("steps"), 14);
  EXPECT_EQ(by_name["ring"].at("messages"), 8 * 14);
  EXPECT_EQ(by_name["ring"].at("max_bytes_sent"), 14 * (1 << 20) / 8);
  EXPECT_EQ(by_name["central"].at("max_bytes_sent"), 7 * (1 << 20));
}

TEST(Plan, MarksWhatACallRuns) {
  const auto chosen = [](const nlohmann::json& answer) {
    std::vector<std::string> marked;
    for (const auto& line : answer.at("ranking")) {
      if (line.at("chosen") == true) marked.push_back(line.at("algorithm"));
    }
    EXPECT_LE(marked.size(), 1u);
    const std::string said = answer.at("chosen");
    if (marked.empty()) return "none, but " + said;
    EXPECT_EQ(marked[0], said);
    return said;
  };
  for (const char* bytes : {"8", "1M", "1000000"}) {
    const auto answer = plan({"all_reduce", "--ranks", "4", "--bytes", bytes});
    EXPECT_EQ(chosen(answer), "direct") << "as ranks that share memory run it";
    EXPECT_EQ(answer.at("ranking").at(0).at("native"), true);
    EXPECT_EQ(answer.at("ranking").at(0).at("messages"), 0);
  }
  const std::vector<std::string> asked{"all_reduce", "--ranks", "4", "--links", "tcp"};
  EXPECT_EQ(plan(asked).at("ranking").at(0).at("native"), false);
  ::setenv("KOLO_ALGORITHM", "ring", 1);
  EXPECT_EQ(chosen(plan(asked)), "ring");
  ::setenv("KOLO_ALGORITHM", "k_nomial:radix=7", 1);
  EXPECT_EQ(chosen(plan(asked)), "none, but k_nomial:radix=7");
  EXPECT_NE(run({"plan", "all_reduce", "--ranks", "4"}).out.find("a call runs k_nomial:radix=7"),
            std::string::npos);
  ::unsetenv("KOLO_ALGORITHM");
}

TEST(Plan, KnowsHostsAndEveryCollective) {
  EXPECT_EQ(plan({"all_reduce", "--hosts", "4,2"}).at("layout"), "4+2");
  EXPECT_EQ(plan({"all_reduce", "--hosts", "1,1,1"}).at("links"), "tcp");
  EXPECT_EQ(plan({"all_reduce", "--links", "tcp"}).at("links"), "tcp");
  for (const char* collective : {"reduce_scatter", "all_gather", "broadcast", "reduce", "scatter", "gather",
                                 "all_to_all", "barrier"}) {
    std::vector<std::string> asked{collective, "--ranks", "5"};
    if (collective != std::string("barrier")) asked.insert(asked.end(), {"--bytes", "8K"});
    EXPECT_FALSE(plan(asked).at("ranking").empty()) << collective;
  }
  const ProgramOutcome table = run({"plan", "broadcast", "--ranks", "3", "--bytes", "64"});
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("binomial"), std::string::npos) << table.out;
}

TEST(Plan, SaysWhatItCannotRead) {
  expect_usage_error({"plan", "all_reduc"}, "all_reduce");
  expect_usage_error({"plan", "all_reduce", "--bytes", "many"}, "many");
  expect_usage_error({"plan", "all_reduce", "--bytes", "8,16"}, "one size");
  expect_usage_error({"plan", "all_reduce", "--ranks", "0"}, "0");
  expect_usage_error({"plan", "barrier", "--bytes", "8"}, "barrier");
  expect_usage_error({"plan", "all_reduce", "--hosts", "2,x"}, "2,x");
  expect_usage_error({"plan", "all_reduce", "--hosts", "2,2", "--ranks", "5"}, "5");
}

TEST(Tune, WritesATableThatPlansAndRunsBelieve) {
  const TableFile file;
  // One collective only: all algorithms of all collectives take minutes on a busy machine.
  const ProgramOutcome tuned = run({"tune", "--ranks", "2", "--transport", "shm", "--collectives",
                                    "all_reduce", "--sizes", "64,4K", "-o", file.path});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("regret"), std::string::npos) << tuned.out;
  auto table = selection::read_table(file.path);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_TRUE(table.value().model({"shm", "2"}).has_value());
  const auto* times = table.value().times({"shm", "2"}, schedule::Collective::all_reduce);
  ASSERT_NE(times, nullptr);
  EXPECT_EQ(times->size(), 2u);

  const auto answer = plan({"all_reduce", "--ranks", "2", "--bytes", "64"}, file.path);
  EXPECT_EQ(answer.at("ranking").front().at("measured"), true);
  // The algorithm that runs is the fastest one of the table.
  table.value().set_time({"shm", "2"}, schedule::Collective::all_reduce, 64, "double_tree", 1e-12);
  ASSERT_TRUE(selection::write_table(file.path, table.value()).ok());
  const ProgramOutcome bench =
      run({"bench", "all_reduce", "--ranks", "2", "--sizes", "64", "--iterations", "5", "--transport", "shm"},
          file.path);
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE(bench.out.find("double_tree"), std::string::npos) << bench.out;
}

std::vector<std::string> types_of(const std::string& lines) {
  std::vector<std::string> types;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) types.push_back(nlohmann::json::parse(line).at("type"));
  return types;
}

TEST(Tune, WritesTheLinesOfAllSettingsToOneFile) {
  const TableFile table;
  const std::string file = table.folder / "lines.jsonl";
  std::ofstream(file) << "{\"type\": \"old\"}\n";
  const ProgramOutcome tuned = run({"tune", "--ranks", "2", "--transport", "shm,tcp", "--collectives",
                                    "barrier", "-o", table.path, "--json", file});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_TRUE(has(tuned.out, "# written to " + table.path)) << tuned.out;
  std::stringstream lines;
  lines << std::ifstream(file).rdbuf();
  const std::vector<std::string> types = types_of(lines.str());
  EXPECT_EQ(types.front(), "machine");
  EXPECT_EQ(std::ranges::count(types, "machine"), 1);
  EXPECT_EQ(std::ranges::count(types, "choice"), 2) << "one for each transport";
  EXPECT_EQ(types.back(), "table");
  EXPECT_EQ(std::ranges::count(types, "old"), 0);
  for (const char* transport : {"\"transport\":\"shm\"", "\"transport\":\"tcp\""})
    EXPECT_TRUE(has(lines.str(), transport)) << transport;
}

TEST(Tune, FindsAJsonFileThatItCannotWriteBeforeItMeasures) {
  const TableFile table;
  const ProgramOutcome tuned = run({"tune", "-o", table.path, "--json", "/nowhere/at/all.jsonl"});
  EXPECT_EQ(tuned.code, 1);
  EXPECT_TRUE(has(tuned.err, "cannot write /nowhere/at/all.jsonl: No such file")) << tuned.err;
  EXPECT_EQ(tuned.out, "");
}

TEST(Tune, WritesNothingButJsonWhereItIsInPlaceOfTheText) {
  const TableFile table;
  const ProgramOutcome tuned = run({"run", "-n", "2", "--no-prefix", "--", KOLO_PROGRAM, "tune",
                                    "--collectives", "barrier", "-o", table.path, "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::vector<std::string> types = types_of(tuned.out);
  EXPECT_EQ(types.front(), "machine");
  EXPECT_EQ(std::ranges::count(types, "choice"), 1);
  EXPECT_EQ(types.back(), "table");
}

TEST(Tune, SaysWhatItCannotDo) {
  expect_usage_error({"tune", "-o", ""}, "no place for the table");
  expect_usage_error({"tune", "--collectives", "all_reduc", "-o", "/nowhere/table"}, "all_reduce");
  expect_usage_error({"tune", "--sizes", "x", "-o", "/nowhere/table"}, "x");
  expect_usage_error({"tune", "--transport", "pigeon"}, "pigeon");
  expect_usage_error({"tune", "--ranks", "1", "-o", "/nowhere/table"}, "1");
  expect_usage_error({"bench", "all_reduce", "--learn", "/nowhere/table"}, "--algorithm all");
  expect_usage_error({"tune", "--only-bandwidths", "-o", "/nowhere/table"}, "that a launcher starts");
}

TEST(Tune, OneLateAnswerIsNoBandwidth) {
  using std::chrono::milliseconds;
  const auto store = make_memory_store();
  Options options;
  options.transports = "inproc";
  options.timeout = std::chrono::seconds(60);
  // Rank 1 answers one empty message late, and later delays its answer to the data.
  std::thread peer([&] {
    Communicator communicator = Communicator::create(store, 1, 2, options);
    std::byte word{};
    for (int i = 0; i < tune::kRoundTrips; ++i) {
      communicator.recv({nullptr, 0, DType::uint8}, 0);
      if (i == 1) std::this_thread::sleep_for(milliseconds(500));
      communicator.send({&word, 1, DType::uint8}, 0);
    }
    std::vector<std::byte> data(256 << 10);
    communicator.recv({data.data(), data.size(), DType::uint8}, 0);
    std::this_thread::sleep_for(milliseconds(100));
    communicator.send({&word, 1, DType::uint8}, 0);
    std::uint64_t again = 0;
    communicator.recv({&again, 1, DType::uint64}, 0);
    EXPECT_EQ(again, 0u);
  });
  Communicator communicator = Communicator::create(store, 0, 2, options);
  const double bandwidth = tune::bandwidth_to(communicator, 1);
  peer.join();
  EXPECT_GT(bandwidth, 0);
  EXPECT_LT(bandwidth, (256 << 10) / 0.09);
}

TEST(Tune, RefusesWhatItsLauncherHasDecided) {
  for (const auto& [option, value] : {std::pair("--ranks", "2"), std::pair("--transport", "tcp")}) {
    Command tune({KOLO_PROGRAM, "tune", option, value, "-o", "/nowhere/table"},
                 {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}});
    EXPECT_EQ(tune.finish(), 2) << tune.err();
    EXPECT_NE(tune.err().find(std::string(option) + ": only for ranks that kolo tune starts"),
              std::string::npos)
        << tune.err();
  }
}

TEST(Tune, FindsATableThatItCannotChangeBeforeItMeasures) {
  const TableFile file;
  std::ofstream(file.path) << "kolo-table 1\nnonsense\n";
  for (const std::string& path : {file.path, std::string("/proc/kolo/table")}) {
    const ProgramOutcome tuned =
        run({"tune", "--ranks", "2", "--transport", "shm", "--sizes", "64", "-o", path});
    EXPECT_NE(tuned.code, 0) << path;
    EXPECT_NE(tuned.err.find(path), std::string::npos) << tuned.err;
    EXPECT_EQ(tuned.out, "") << path;
  }
}

TEST(ABrokenTable, IsLeftOutWithAWarning) {
  const TableFile file;
  std::ofstream(file.path) << "kolo-table 1\nnonsense\n";
  const ProgramOutcome bench =
      run({"bench", "all_reduce", "--ranks", "2", "--sizes", "64", "--iterations", "5"}, file.path);
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE((bench.err + bench.out).find("line 2"), std::string::npos) << bench.err;
}

TEST(AnUnknownPreference, IsAnErrorThatNamesTheVariable) {
  Command bench({KOLO_PROGRAM, "bench", "all_reduce", "--ranks", "2", "--sizes", "64", "--iterations", "1"},
                {{"KOLO_ALGORITHM", "rnig"}});
  EXPECT_NE(bench.finish(), 0);
  EXPECT_NE(bench.err().find("KOLO_ALGORITHM=rnig"), std::string::npos) << bench.err();
  EXPECT_NE(bench.err().find("did you mean 'ring'?"), std::string::npos) << bench.err();
}

TEST(BenchGrid, ShowsAChoiceThatIsNoCandidate) {
  Command grid({KOLO_PROGRAM, "bench", "all_reduce", "--ranks", "2", "--algorithm", "all", "--sizes", "8",
                "--iterations", "5", "--transport", "inproc"},
               {{"KOLO_ALGORITHM", "k_nomial:radix=5"}, {"KOLO_TABLE", "none"}});
  EXPECT_EQ(grid.finish(), 0) << grid.err();
  EXPECT_NE(grid.out().find("k_nomial:radix=5"), std::string::npos) << grid.out();
}

TEST(BenchGrid, ShowsEveryAlgorithmTheChoiceAndTheRegret) {
  const ProgramOutcome grid = run({"bench", "all_reduce", "--ranks", "3", "--algorithm", "all", "--sizes",
                                   "8,4K", "--iterations", "5", "--transport", "inproc"});
  EXPECT_EQ(grid.code, 0) << grid.err;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective == schedule::Collective::all_reduce) {
      EXPECT_NE(grid.out.find(std::string(algorithm.name)), std::string::npos) << algorithm.name;
    }
  }
  EXPECT_NE(grid.out.find("regret"), std::string::npos);
  EXPECT_NE(grid.out.find('>'), std::string::npos);
}

TEST(BenchGrid, WritesTheChoiceOfEverySizeAmongTheResults) {
  const TableFile file;
  const ProgramOutcome grid =
      run({"bench", "all_reduce", "--ranks", "2", "--algorithm", "all", "--sizes", "8,4K", "--iterations",
           "3", "--transport", "inproc", "--json", file.path});
  EXPECT_EQ(grid.code, 0) << grid.err;
  std::vector<std::string> names;
  std::vector<nlohmann::json> choices;
  std::ifstream lines(file.path);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("type") == "result") {
      names.push_back(json.at("algorithm"));
      EXPECT_EQ(json.at("wrong"), 0);
    }
    if (json.at("type") == "choice") choices.push_back(json);
  }
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[1].at("bytes"), 4096);
  for (const auto& line : choices) {
    EXPECT_TRUE(std::ranges::count(names, line.at("choice").get<std::string>()) > 0) << line;
    EXPECT_TRUE(std::ranges::count(names, line.at("fastest").get<std::string>()) > 0) << line;
    EXPECT_GE(line.at("regret"), 0);
    EXPECT_LE(line.at("regret_low"), line.at("regret_high"));
  }
}

}  // namespace
}  // namespace kolo::test
