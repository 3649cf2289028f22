// kolo precision as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/outcome.hpp"

namespace kolo::precision {
namespace {

test::ProgramOutcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "precision");
  return test::run_kolo(std::move(arguments));
}

std::vector<nlohmann::json> rows_of(const std::vector<std::string>& arguments) {
  const test::ProgramOutcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<nlohmann::json> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(Precision, KeepsTheBoundOfEveryAlgorithmAndGivesAllRanksTheSameBits) {
  for (const std::vector<std::string>& kind : {std::vector<std::string>{"--type", "float32"},
                                               {"--type", "float16"},
                                               {"--type", "bfloat16"},
                                               {"--wire", "float16"},
                                               {"--wire", "bfloat16"}}) {
    std::vector<std::string> arguments = {"--json",  "--ranks", "2,7:8",   "--per-host", "4",
                                          "--count", "100",     "--seeds", "2"};
    arguments.insert(arguments.end(), kind.begin(), kind.end());
    int served = 0;
    for (const nlohmann::json& row : rows_of(arguments)) {
      if (row.contains("not_served")) continue;
      ++served;
      EXPECT_TRUE(row["same_bits"].get<bool>()) << row;
      EXPECT_LE(row["largest_units"].get<double>(), row["roundings"].get<double>()) << row;
      EXPECT_GT(row["largest_units"].get<double>(), 0) << row;
      EXPECT_LE(row["mean_units"].get<double>(), row["rms_units"].get<double>()) << row;
      EXPECT_EQ(row["rms_of_rms_of_seeds"].size(), 2u);
    }
    EXPECT_GT(served, 20);
  }
}

TEST(Precision, FindsThatATreeOfPositiveNumbersRoundsLess) {
  const auto rows = rows_of(
      {"ring", "halving_doubling", "--ranks", "128", "--data", "positive", "--count", "1000", "--json"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["roundings"], 127);
  EXPECT_EQ(rows[1]["roundings"], 7);
  EXPECT_GT(rows[0]["rms_units"].get<double>(), 2 * rows[1]["rms_units"].get<double>());
}

TEST(Precision, PrintsATable) {
  const test::ProgramOutcome outcome = run({"ring", "--ranks", "8", "--count", "100"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 4) << outcome.out;
  EXPECT_NE(outcome.out.find(" ring "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" same\n"), std::string::npos) << outcome.out;
}

TEST(Precision, RefusesWhatCannotBe) {
  const auto expect_usage_error = [](const std::vector<std::string>& arguments, const std::string& text) {
    const test::ProgramOutcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  expect_usage_error({"rings"}, "rings");
  expect_usage_error({"ring", "--ranks", "1"}, "two ranks are the least");
  expect_usage_error({"ring", "--ranks", "1025"}, "1024 ranks are the most here");
  expect_usage_error({"ring", "--ranks", "many"}, "--ranks many");
  expect_usage_error({"ring", "--data", "sorted"}, "sorted");
  expect_usage_error({"ring", "--wire", "int8"}, "int8");
  expect_usage_error({"ring", "--count", "0"}, "--count");
  expect_usage_error({"ring", "--type", "bfloat16", "--wire", "bfloat16"}, "wire formats are for float32");
  expect_usage_error({"recursive_doubling", "--ranks", "8", "--wire", "bfloat16"}, "recursive_doubling");
}

}  // namespace
}  // namespace kolo::precision
