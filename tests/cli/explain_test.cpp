// kolo check and kolo draw as a user runs them: exit codes, tables, files and errors for wrong usage.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace kolo::test {
namespace {

namespace fs = std::filesystem;

/// A temporary folder that is the working directory while this object lives.
struct Folder {
  Folder() { fs::current_path(folder.path()); }
  ~Folder() { fs::current_path(before); }

  fs::path before = fs::current_path();
  TemporaryFolder folder;
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Check, ProvesOneAlgorithm) {
  const ProgramOutcome outcome = run_kolo({"check", "all_reduce", "ring", "--ranks", "2:5"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 8u) << outcome.out;
  EXPECT_EQ(rows[2], "  all_reduce");
  const std::string five = rows[6];
  for (const char* part : {" ring ", " 5 ", " 8 ", " 40 ", " 1.6 ", " proved"}) {
    EXPECT_NE(five.find(part), std::string::npos) << part << " in " << five;
  }
  for (std::size_t row = 3; row <= 6; ++row) {
    EXPECT_EQ(rows[row].find("proved"), rows[3].find("proved")) << "lines up: " << rows[row];
  }
  EXPECT_EQ(rows[7], "# 4 proved, 0 not served, 0 not right");
  const ProgramOutcome wide = run_kolo({"check", "all_reduce", "ring", "--ranks", "5", "--wide"});
  EXPECT_NE(wide.out.find(" proved  steps 2(N-1), sends 2(N-1)/N "), std::string::npos) << wide.out;
}

TEST(Check, ProvesAllAlgorithmsOfACollective) {
  const ProgramOutcome outcome =
      run_kolo({"check", "broadcast", "--ranks", "6", "--root", "4", "--count", "17"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("binomial"), std::string::npos);
  EXPECT_NE(outcome.out.find("direct"), std::string::npos);
  EXPECT_EQ(outcome.out.find("all_reduce"), std::string::npos);
}

TEST(Check, WritesJson) {
  const ProgramOutcome outcome =
      run_kolo({"check", "all_reduce", "ring", "--hosts", "3,2,3", "--count", "1001", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json row = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(row.at("ranks"), 8);
  EXPECT_EQ(row.at("elements"), 1001);
  EXPECT_EQ(row.at("steps"), 14);
  EXPECT_EQ(row.at("messages"), 112);
  EXPECT_EQ(row.at("proved"), true);
  EXPECT_EQ(row.at("as_stated"), true);
  EXPECT_GE(row.at("max_sent"), 2 * 1001 * 7 / 8);
}

TEST(Check, SaysWhatAnAlgorithmCannotServe) {
  expect_usage_error({"check", "all_reduce", "ring:order=0-1", "--ranks", "3"},
                     "needs an order that names each of the ranks 0 to 2 once");
  // Among several sizes, a size that is not served is a row and no failure.
  const ProgramOutcome outcome = run_kolo({"check", "all_reduce", "ring:order=0-2-1", "--ranks", "2:3"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("not served\n      all_reduce algorithm"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("# 1 proved, 1 not served, 0 not right"), std::string::npos) << outcome.out;
}

TEST(Check, RefusesWrongUsage) {
  expect_usage_error({"check", "all_reduce", "rign"}, "did you mean 'ring'?");
  expect_usage_error({"check", "all_redcue"}, "there is no collective 'all_redcue'; known are all_reduce, ");
  expect_usage_error({"check", "send_recv"}, "send_recv has no algorithms to check");
  expect_usage_error({"check", "--ranks", "8:2"}, "the smaller first");
  expect_usage_error({"check", "--ranks", "two"}, "it must be a number from 1");
  expect_usage_error({"check", "--ranks", "100000"}, "4096 ranks are the most");
  expect_usage_error({"check", "--hosts", "3,x"}, "the number of ranks on each host");
  expect_usage_error({"check", "--hosts", "3,"}, "the number of ranks on each host");
  expect_usage_error({"check", "--hosts", "3,2", "--ranks", "8"}, "the hosts hold 5 ranks, not 8");
  expect_usage_error({"check", "--root", "3", "--ranks", "3"}, "the 3 ranks are 0 to 2");
  expect_usage_error({"check", "--count", "-1"}, "--count");
}

TEST(Draw, WritesAPageUnderItsOwnName) {
  const Folder folder;
  const ProgramOutcome outcome = run_kolo({"draw", "ring", "--ranks", "4"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "ring-4.html\n");
  EXPECT_NE(read("ring-4.html").find("<title>all_reduce: ring, 4 ranks</title>"), std::string::npos);
  EXPECT_EQ(
      run_kolo({"draw", "ring:order=0-2-1", "--collective", "all_gather", "-n", "3", "--format", "svg"}).out,
      "all_gather-ring-order-0-2-1-3.svg\n");
}

TEST(Draw, WritesWhereItIsTold) {
  const Folder folder;
  EXPECT_EQ(run_kolo({"draw", "central", "--format", "svg", "-o", "sheet"}).out, "");
  EXPECT_EQ(read("sheet").rfind("<svg ", 0), 0u);
  EXPECT_EQ(run_kolo({"draw", "central", "--format", "svg", "-o", "-"}).out, read("sheet"));
  // Without a format, the file's name determines it.
  EXPECT_EQ(run_kolo({"draw", "central", "-o", "sheet.svg"}).out, "");
  EXPECT_EQ(read("sheet.svg"), read("sheet"));
  run_kolo({"draw", "central", "-o", "page.svg", "--format", "html"});
  EXPECT_EQ(read("page.svg").rfind("<!doctype html>", 0), 0u);
  run_kolo({"draw", "central", "-o", "steps.txt"});
  EXPECT_EQ(read("steps.txt"), run_kolo({"draw", "central", "--format", "text"}).out);
  run_kolo({"draw", "central", "-o", "central"});
  EXPECT_EQ(read("central"), read("page.svg"));
  const ProgramOutcome text = run_kolo({"draw", "central", "--format", "text"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("Step 14 of 14"), std::string::npos) << text.out;
  const ProgramOutcome nowhere = run_kolo({"draw", "ring", "-o", "no/such/folder"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_NE(nowhere.err.find("cannot write no/such/folder: No such file"), std::string::npos) << nowhere.err;
}

TEST(Draw, WritesAllAlgorithmsToAFolder) {
  const Folder folder;
  const ProgramOutcome outcome = run_kolo({"draw", "--all", "--ranks", "2:3", "-o", "new/site"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "new/site/index.html\n");
  EXPECT_EQ(read("new/site/all_reduce-ring-3.html").rfind("<!doctype html>", 0), 0u);
  EXPECT_NE(read("new/site/index.html").find("href=\"all_reduce-ring-2.html\""), std::string::npos);
  EXPECT_TRUE(fs::exists("new/site/compare.html"));
  std::ofstream("file") << "in the way";
  const ProgramOutcome no_folder = run_kolo({"draw", "--all", "-o", "file"});
  EXPECT_EQ(no_folder.code, 1);
  EXPECT_NE(no_folder.err.find("cannot make the folder file: "), std::string::npos) << no_folder.err;
}

TEST(Draw, RefusesWrongUsage) {
  expect_usage_error({"draw"}, "name an algorithm, or --all");
  expect_usage_error({"draw", "ring", "--all"}, "--all");
  expect_usage_error({"draw", "--all", "--format", "svg"}, "--all");
  expect_usage_error({"draw", "ring", "-o", "x.png"},
                     "-o x.png: kolo draw writes .html, .svg and .txt, not .png; --format chooses one");
  expect_usage_error({"draw", "rign"}, "did you mean 'ring'?");
  expect_usage_error({"draw", "ring", "--collective", "barrier"}, "it knows dissemination");
  expect_usage_error({"draw", "ring", "--ranks", "65"}, "64 ranks are the most here");
  expect_usage_error({"draw", "ring", "--ranks", "2:3"}, "a picture is of one number of ranks");
  expect_usage_error({"draw", "ring", "--format", "png"}, "--format");
  expect_usage_error({"draw", "ring", "--ranks", "32", "--format", "svg"}, "40 are the most");
}

TEST(Help, NamesTheCommands) {
  const ProgramOutcome help = run_kolo({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("kolo check all_reduce"), std::string::npos);
  EXPECT_NE(help.out.find("kolo draw ring"), std::string::npos);
}

TEST(Explain, TellsOfACodeOrATextWhatToDo) {
  const ProgramOutcome told = run_kolo({"explain", "K104"});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(told.out.starts_with("K104 No store answers\n")) << told.out;
  EXPECT_EQ(run_kolo({"explain", "k104"}).out, told.out);
  EXPECT_EQ(run_kolo({"explain", "no", "store", "answered", "at", "a"}).out, told.out);
  expect_usage_error({"explain", "pigeon"}, "there is no entry for 'pigeon' [K901]");
}

}  // namespace
}  // namespace kolo::test
