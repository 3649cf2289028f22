// kolo plan step: what a user sees of it.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/outcome.hpp"

namespace kolo::test {
namespace {

/// The known job with one option changed.
std::vector<std::string> asked(const std::string& option = "", const std::string& value = "") {
  std::map<std::string, std::string> options = {
      {"--bytes", "1.2GB"}, {"--compute", "300ms"}, {"--hosts", "10"}, {"--rate", "9.6gbit"}};
  if (!option.empty()) options[option] = value;
  std::vector<std::string> arguments = {"plan", "step"};
  for (const auto& [name, text] : options) arguments.push_back(name + "=" + text);
  return arguments;
}

TEST(PlanStepCommand, PrintsTheKnownExample) {
  const ProgramOutcome outcome = run_kolo(asked());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* text : {"(1,200,000,000 bytes)", "9.6 Gbit/s of payload each way (1.2 GB/s)",
                           "  9.00  9.00        9.00     18.00 ", "the server's link, in",
                           "the driver's link, in", "  > ring "}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << " in\n" << outcome.out;
  }
}

TEST(PlanStepCommand, GivesProgramsTheSameNumbers) {
  std::vector<std::string> arguments = asked();
  arguments.push_back("--json");
  const ProgramOutcome outcome = run_kolo(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(answer.at("bytes"), 1'200'000'000);
  EXPECT_EQ(answer.at("workers"), 10);
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& row : answer.at("algorithms")) by_name[row.at("algorithm")] = row;
  ASSERT_EQ(by_name.size(), 4u);
  const auto& central = by_name.at("central");
  EXPECT_NEAR(central.at("in_turns_seconds"), 18, 1e-9);
  EXPECT_EQ(central.at("chosen"), false);
  EXPECT_EQ(by_name.at("ring").at("chosen"), true);
  const double expected = central.at("expected_seconds");
  const auto& plain = central.at("without_overlap");
  EXPECT_NEAR(plain.at("seconds"), 0.3 + expected, 1e-9);
  EXPECT_NEAR(plain.at("speedup"), 10 * 0.3 / (0.3 + expected), 1e-9);
  EXPECT_LT(central.at("with_overlap").at("seconds"), plain.at("seconds"));
}

TEST(PlanStepCommand, ShowsWhatACallRuns) {
  const ProgramOutcome outcome = run_kolo(asked(), {{"KOLO_ALGORITHM", "butterfly"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("  > butterfly "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("> ring"), std::string::npos) << outcome.out;
}

TEST(PlanStepCommand, CountsThePayload) {
  std::vector<std::string> arguments = asked("--payload", "50%");
  arguments.push_back("--json");
  const ProgramOutcome outcome = run_kolo(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NEAR(nlohmann::json::parse(outcome.out).at("bytes_per_second"), 0.6e9, 1);
}

TEST(PlanStepCommand, SaysWhatItCannotRead) {
  expect_usage_error(asked("--bytes", "0.1"), "--bytes 0.1: write a number of bytes");
  expect_usage_error(asked("--bytes", "1.2X"), "--bytes 1.2X: write a number of bytes");
  expect_usage_error(asked("--compute", "-300ms"), "--compute -300ms: write a time from 0");
  expect_usage_error(asked("--compute", "300"), "with its unit");
  expect_usage_error(asked("--hosts", "1"), "--hosts 1: write the number of hosts, from 2 to 1024");
  expect_usage_error(asked("--hosts", "4,4"), "--hosts 4,4: write the number of hosts");
  expect_usage_error(asked("--hosts", "1025"), "from 2 to 1024");
  expect_usage_error(asked("--rate", "9.6"), "--rate 9.6: write a rate");
  expect_usage_error(asked("--payload", "0"), "--payload 0:");
  expect_usage_error(asked("--backward", "2"), "--backward 2: write a share");
  expect_usage_error({"plan", "step", "--bytes", "1G"}, "(kolo plan step --help tells more)");
  expect_usage_error({"plan"}, "needs a collective (all_reduce, broadcast, ...), step or training");
  std::vector<std::string> json_first = asked();
  json_first.insert(json_first.begin() + 1, "--json");
  expect_usage_error(json_first, "--json stands before step");
}

TEST(PlanStepCommand, TheDocumentationShowsWhatItPrints) {
  std::ifstream page(KOLO_CHOOSING_PAGE);
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  std::vector<std::string> wide = asked();
  wide.push_back("--wide");
  EXPECT_NE(text.find("```\n" + run_kolo(wide).out + "```"), std::string::npos)
      << "docs/choosing.md is stale: it shows another output of kolo plan step";
}

TEST(PlanStepCommand, TeachesInItsHelp) {
  const ProgramOutcome help = run_kolo({"plan", "step", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"kolo plan step --bytes 1.2GB --compute 300ms --hosts 10 --rate 9.6gbit",
                           "--unevenness", "max(backward, first bucket + communication)", "0.956"})
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  EXPECT_NE(run_kolo({"plan", "--help"}).out.find("kolo plan step"), std::string::npos);
}

}  // namespace
}  // namespace kolo::test
