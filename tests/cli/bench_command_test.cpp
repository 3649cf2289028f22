// kolo bench as a user runs it: real ranks, every result verified by the program itself, its JSON read back.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/types.hpp"
#include "survivors.hpp"
#include "transport/transport.hpp"

namespace {

using kolo::test::ProgramOutcome;

/// `arguments`: separated by spaces. Both streams are in `out`.
ProgramOutcome run(const std::string& arguments, const std::map<std::string, std::string>& variables = {}) {
  std::vector<std::string> words = {"bench"};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  return kolo::test::run_kolo(std::move(words), variables, true);
}

struct Lines {
  kolo::test::TemporaryFolder folder;
  std::string path = folder / "lines";

  std::vector<nlohmann::json> read() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

// Runs kolo bench, and expects a right result of kolo for every size.
std::vector<nlohmann::json> expect_right(const std::string& arguments, std::size_t rows) {
  const Lines file;
  const ProgramOutcome outcome = run(arguments + " --iterations 5 --warmup 1 --json " + file.path);
  EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.out;
  std::vector<nlohmann::json> results;
  for (const auto& line : file.read()) {
    if (line.at("type") != "result") continue;
    EXPECT_EQ(line.at("wrong"), 0) << arguments << "\n" << outcome.out;
    EXPECT_GE(line.at("iterations"), 5);
    EXPECT_GT(line.at("median_us"), 0);
    results.push_back(line);
  }
  EXPECT_EQ(results.size(), rows) << arguments << "\n" << outcome.out;
  return results;
}

constexpr const char* kSizes = " --sizes 0,1,8,1000,70001 ";

class BenchCollective : public testing::TestWithParam<const char*> {};

TEST_P(BenchCollective, IsRightAtOneToFiveRanks) {
  const std::string collective = GetParam();
  const std::size_t rows = collective == "barrier" ? 1 : 5;
  for (int ranks = collective == "send_recv" ? 2 : 1; ranks <= 5; ++ranks) {
    for (const char* place : {" --in-place", " --out-of-place"}) {
      expect_right(collective + kSizes + "--transport inproc --ranks " + std::to_string(ranks) + place, rows);
    }
  }
}

TEST_P(BenchCollective, IsRightBetweenProcesses) {
  const std::string collective = GetParam();
  const std::size_t rows = collective == "barrier" ? 1 : 5;
  for (const std::string& transport : kolo::transport::transport_names(kolo::transport::Reach::host)) {
    for (const auto& line : expect_right(collective + kSizes + "--ranks 3 --transport " + transport, rows)) {
      EXPECT_EQ(line.at("transport"), transport);
      EXPECT_EQ(line.at("ranks"), 3);
      EXPECT_EQ(line.at("collective"), collective);
    }
  }
}

TEST_P(BenchCollective, ManyTensorsAtOnceAreRight) {
  const std::string collective = GetParam();
  if (collective == "send_recv") GTEST_SKIP() << "no collective";
  const std::size_t rows = collective == "barrier" ? 1 : 3;
  for (const char* place : {" --in-place", " --out-of-place"}) {
    for (const auto& line :
         expect_right(collective + " --sizes 0,8,5000 --tensors 30 --ranks 3" + place, rows)) {
      EXPECT_EQ(line.at("tensors"), 30);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BenchCollective,
                         testing::Values("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                         "scatter", "gather", "all_to_all", "scan", "barrier", "send_recv"),
                         [](const auto& info) { return std::string(info.param); });

class BenchDType : public testing::TestWithParam<kolo::DType> {};

TEST_P(BenchDType, IsRightInEveryReduction) {
  const std::string common =
      std::string(kSizes) + "--transport inproc --ranks 4 --dtype " + std::string(name_of(GetParam()));
  for (const kolo::ReduceOp op : kolo::test::kReduceOps) {
    if (!kolo::knows(GetParam(), op)) continue;
    expect_right("all_reduce" + common + " --reduction " + std::string(name_of(op)), 5);
  }
  expect_right("reduce" + common, 5);
  expect_right("reduce_scatter" + common, 5);
  expect_right("all_to_all" + common, 5);
}

INSTANTIATE_TEST_SUITE_P(All, BenchDType, testing::ValuesIn(kolo::test::kDTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(BenchCommand, PrivateMemoryAndNamedAlgorithm) {
  for (const auto& line :
       expect_right("all_reduce --ranks 2 --sizes 8,1M --memory private --algorithm ring", 2)) {
    EXPECT_EQ(line.at("memory"), "private");
    EXPECT_EQ(line.at("algorithm"), "ring");
  }
}

TEST(BenchCommand, RewritesMemoryOfTheSameKindInPlace) {
  for (const std::string memory : {"shared", "private"}) {
    const Lines file;
    const ProgramOutcome outcome =
        run("all_gather --ranks 2 --sizes 4099 --iterations 5 --dtype int8 --memory " + memory + " --json " +
            file.path);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    std::size_t rows = 0;
    for (const auto& line : file.read()) {
      if (line.at("type") != "rewrite") continue;
      ++rows;
      EXPECT_EQ(line.at("memory"), memory);
      EXPECT_EQ(line.at("in_place"), true);
      EXPECT_EQ(line.at("bytes"), 4098);
    }
    EXPECT_EQ(rows, 1u) << outcome.out;
  }
}

TEST(BenchCommand, NeighboursAreToldAndEndWithIt) {
  for (const std::string ranks : {"--transport shm", "--transport inproc --blip 200,3000"}) {
    const Lines file;
    const ProgramOutcome outcome = run(
        "all_reduce --ranks 2 --sizes 8,64K --iterations 20 --neighbours 2 " + ranks + " --json " + file.path,
        {{"TEST_MARK", "neighbours"}});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_NE(outcome.out.find("2 busy processes"), std::string::npos) << outcome.out;
    const auto lines = file.read();
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.front().at("neighbours"), 2);
    EXPECT_GT(lines.back().at("mean_us"), 0);
    EXPECT_TRUE(kolo::test::all_gone("neighbours"));
  }
}

TEST(BenchCommand, AStepHasItsComputing) {
  const Lines file;
  const ProgramOutcome outcome =
      run("all_reduce --ranks 2 --sizes 8 --iterations 20 --compute 1.5 --json " + file.path);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const auto lines = file.read();
  ASSERT_FALSE(lines.empty());
  for (const auto& line : lines) {
    if (line.at("type") != "result") continue;
    EXPECT_EQ(line.at("compute_ms"), 1.5);
    EXPECT_GE(line.at("min_us"), 1500);
  }
}

TEST(BenchCommand, CallsBetweenTwoBarriersHaveAMean) {
  for (const std::string what : {"all_reduce", "all_reduce --memory private --tensors 3",
                                 "all_gather --in-place", "scatter", "send_recv", "barrier"}) {
    for (const auto& line : expect_right(what + " --sizes 4001 --calls-a-barrier 4 --ranks 3", 1))
      EXPECT_EQ(line.at("calls_a_barrier"), 4);
  }
  expect_right("all_reduce --sizes 8,4001 --calls-a-barrier 4 --ranks 2 --wire int8", 4);
  // Each of them has its computing.
  const auto step = expect_right("all_reduce --sizes 8 --calls-a-barrier 4 --ranks 2 --compute 1", 1);
  EXPECT_GE(step.at(0).at("min_us"), 1000);
}

TEST(BenchCommand, WrongUsageIsToldInAWord) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"all_redcue", "unknown collective 'all_redcue'"},
      {"all_reduce --dtype float31", "unknown dtype 'float31'"},
      {"all_reduce --reduction median", "unknown reduction 'median'"},
      {"all_reduce --transport carrier_pigeon", "unknown transport 'carrier_pigeon'"},
      {"all_reduce --algorithm rnig", "rnig"},
      {"send_recv --algorithm ring", "no algorithms"},
      {"all_reduce --sizes 8,many", "'many' is not a size"},
      {"all_reduce --memory lost", "unknown memory 'lost'"},
      {"all_reduce --against nobody", "unknown peer 'nobody'"},
      {"all_reduce --ranks -3", "--ranks -3"},
      {"all_reduce --ranks 4097 --dtype bfloat16", "--ranks 4097: from 1 to 4096"},
      {"all_reduce --tensors 0", "--tensors: at least 1"},
      {"all_reduce --compute -1", "--compute: from 0"},
      {"all_reduce --compute 1 --algorithm all", "without --compute"},
      {"send_recv --compute 1", "--compute needs a collective"},
      {"all_reduce --neighbours -1", "--neighbours: from 0"},
      {"all_reduce --blip 1,2", "--blip needs --neighbours"},
      {"all_reduce --neighbours 1 --blip 5", "--blip"},
      {"all_reduce --neighbours 1 --blip 0,5", "--blip: first at least 1 us"},
      {"all_reduce --neighbours 1 --blip 6,5", "--blip: first at least 1 us"},
      {"all_reduce --neighbours 1 --blip 5,20000000", "up to 10000000 us"},
      {"all_reduce --calls-a-barrier 0", "--calls-a-barrier: at least 1"},
      {"all_reduce --calls-a-barrier 2 --algorithm all", "without --tensors and --calls-a-barrier"},
      {"send_recv --tensors 2", "--tensors needs a collective"},
      {"all_reduce --tensors 2 --algorithm all", "one tensor at a time"},
      {"all_reduce --ranks 300 --dtype bfloat16", "300 ranks"},
      {"send_recv --ranks 1", "at least 2 ranks"},
      {"all_reduce --in-place --out-of-place", "place"},
      {"all_reduce --wire int4", "bfloat16, float16, int8"},
      {"all_reduce --wire int8 --reduction max", "sum or average"},
      {"broadcast --wire int8", "all_reduce of float32"},
      {"all_reduce --wire int8 --against gloo", "--against"},
      {"", "COLLECTIVE"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProgramOutcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome.out;
    EXPECT_NE(outcome.out.find(message), std::string::npos) << arguments << "\n" << outcome.out;
  }
}

TEST(BenchCommand, MeasuresAWireFormatBesideFloat32) {
  for (const std::string wire : {"bfloat16", "float16", "int8"}) {
    for (const std::string more :
         {"--ranks 1", "--ranks 3", "--ranks 4 --reduction average --out-of-place"}) {
      // Two rows for each size: without the format, and with it.
      const auto rows =
          expect_right("all_reduce --sizes 0,4,70001 --transport tcp --wire " + wire + " " + more, 6);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].value("wire", "native"), i % 2 == 0 ? "native" : wire);
        if (i % 2 == 0) continue;
        const double rms = rows[i].at("error_rms");
        EXPECT_LT(rms, 0.05);
        EXPECT_TRUE(more == "--ranks 1" || rows[i].at("count") <= 1 || rms > 1e-5) << rms;
        EXPECT_GE(rows[i].at("error_max"), rms);
      }
    }
  }
}

TEST(BenchCommand, TakesPartAsTheRankThatTheEnvironmentNames) {
  const ProgramOutcome outcome =
      run("all_reduce --sizes 8 --iterations 2",
          {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "0"}});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find(" 1 rank over self"), std::string::npos) << outcome.out;
}

TEST(BenchCommand, AFileThatCannotBeWrittenFails) {
  const ProgramOutcome outcome =
      run("all_reduce --ranks 2 --sizes 8 --iterations 2 --json /nowhere/at/all.jsonl");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_NE(outcome.out.find("/nowhere/at/all.jsonl"), std::string::npos) << outcome.out;
}

// Runs each installed peer; for the other peers, the message says what to install.
void expect_right_peers(const std::string& arguments, const std::vector<std::string>& peers) {
  const Lines file;
  std::string names;
  for (const auto& peer : peers) names += (names.empty() ? "" : ",") + peer;
  const ProgramOutcome outcome =
      run(arguments + " --iterations 10 --against " + names + " --json " + file.path);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const auto& peer : peers) {
    std::size_t rows = 0;
    for (const auto& line : file.read()) {
      if (line.value("library", "") != peer) continue;
      ++rows;
      EXPECT_EQ(line.at("wrong"), 0);
      EXPECT_GE(line.at("iterations"), 2);
      EXPECT_EQ(line.at("memory"), peer == "limit" ? "shared" : "private");
    }
    const bool absent = outcome.out.find("# " + peer + " is not here: ") != std::string::npos;
    EXPECT_EQ(rows, absent ? 0u : 2u) << arguments << " " << peer << "\n" << outcome.out;
  }
}

TEST(BenchCommand, TheHelpNamesEveryPeer) {
  // A refusal lists all valid names.
  const std::string refused = run("all_reduce --against nobody").out;
  const std::string before = "there are ";
  std::string names = refused.substr(refused.find(before) + before.size());
  names = names.substr(0, names.find(" [")) + ",";
  const std::string help = run("--help").out;
  const std::string against = help.substr(help.find("--against"));
  std::size_t count = 0;
  for (std::size_t begin = 0, end; (end = names.find(',', begin)) != names.npos; begin = end + 2, ++count) {
    EXPECT_NE(against.find(names.substr(begin, end - begin)), std::string::npos) << names;
  }
  EXPECT_GE(count, 4u) << refused;
}

TEST(BenchCommand, PeersAreVerifiedToo) {
  expect_right_peers("all_reduce --ranks 2 --sizes 8,64K", {"gloo", "openmpi", "mpich"});
  expect_right_peers("all_reduce --ranks 2 --sizes 8,5000 --tensors 20 --calls-a-barrier 2",
                     {"gloo", "openmpi", "mpich"});
}

TEST(BenchCommand, TheLimitIsVerifiedToo) {
  for (const std::string collective : {"all_reduce", "reduce_scatter", "all_gather", "broadcast"}) {
    for (const std::string ranks : {"1", "2", "3", "4"}) {
      for (const char* place : {" --in-place", " --out-of-place"}) {
        expect_right_peers(collective + " --sizes 36,70001 --ranks " + ranks + place, {"limit"});
      }
    }
    expect_right_peers(collective + " --sizes 36,5000 --ranks 3 --tensors 20 --calls-a-barrier 2", {"limit"});
    expect_right_peers(collective + " --sizes 36,5000 --ranks 3 --calls-a-barrier 5", {"limit"});
  }
}

}  // namespace
