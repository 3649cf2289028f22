// kolo plan training: what a user sees of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace kolo::test {
namespace {

class PlanTrainingCommand : public ::testing::Test {
 protected:
  PlanTrainingCommand() { write(model()); }

  static nlohmann::json model() {
    nlohmann::json layers = nlohmann::json::array();
    for (int i = 0; i < 4; ++i) {
      layers.push_back({{"name", "block " + std::to_string(i)},
                        {"parameters", 1'000'000},
                        {"activation_bytes", 8e6},
                        {"output_bytes", 1e6},
                        {"forward_ms", 10},
                        {"backward_ms", 20},
                        {"tensor_sums", 2e6}});
    }
    return {{"name", "stack"}, {"batch", 8}, {"layers", layers}};
  }

  void write(const nlohmann::json& json) { write_text(json.dump()); }
  void write_text(const std::string& text) { std::ofstream(file()) << text; }
  std::string file() const { return folder_ / "model.json"; }

  ProgramOutcome run(std::map<std::string, std::string> changes = {}, std::vector<std::string> more = {}) {
    std::map<std::string, std::string> options = {{"--model", file()}, {"--hosts", "4"}, {"--rate", "1gbit"}};
    for (const auto& [name, value] : changes) options[name] = value;
    std::vector<std::string> arguments = {"plan", "training"};
    for (const auto& [name, value] : options) {
      if (!value.empty()) arguments.push_back(name + "=" + value);
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_kolo(std::move(arguments));
  }

  nlohmann::json ways(const std::map<std::string, std::string>& changes = {}) {
    const ProgramOutcome outcome = run(changes, {"--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("ways");
  }

  TemporaryFolder folder_;
};

TEST_F(PlanTrainingCommand, RanksTheWays) {
  const ProgramOutcome outcome = run();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* text :
       {"# A training step of stack: 4 ranks, 1 on each of 4 hosts; links of 1 Gbit/s",
        "4 layers, 4,000,000 parameters, 120 ms forward and backward of 8\n", "32 a step, all ranks together",
        "16 B for a parameter", "    DistributedDataParallel ", "ShardedDataParallel, parameters ",
        "pipeline 4 ", "data 2 x tensor 2 ", "data 2 x pipeline 2 ", "tensor 2 x pipeline 2 ", "tensor 4 ",
        "of the step waits for"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << " in\n" << outcome.out;
  }
  EXPECT_EQ(std::ranges::count(outcome.out, '>'), 1) << outcome.out;
}

TEST_F(PlanTrainingCommand, GivesProgramsTheSameNumbersInOrder) {
  double last = 0;
  const auto all = ways();
  EXPECT_EQ(all.size(), 4u + 5u);
  for (const auto& way : all) {
    const double step = way.at("step_seconds");
    EXPECT_GE(step, last);
    last = step;
    EXPECT_NEAR(step,
                way.at("computing_seconds").get<double>() + way.at("waiting_seconds").get<double>() +
                    way.at("message_seconds").get<double>(),
                1e-9);
    EXPECT_EQ(way.at("data").get<int>() * way.at("tensor").get<int>() * way.at("stages").get<int>(), 4);
    EXPECT_EQ(way.at("first_layers").size(), way.at("stages").get<std::size_t>());
    EXPECT_EQ(way.at("fits"), true);
  }
}

TEST_F(PlanTrainingCommand, OptionsCount) {
  const auto ddp = [&](const std::map<std::string, std::string>& changes) {
    for (auto& way : ways(changes)) {
      if (way.at("way") == "DistributedDataParallel") return way;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(ddp({{"--optimizer", "sgd"}}).at("optimizer_bytes"), 0.0);
  EXPECT_EQ(ddp({{"--optimizer", "momentum"}}).at("optimizer_bytes"), 16e6);
  EXPECT_EQ(ddp({}).at("optimizer_bytes"), 32e6);
  EXPECT_NEAR(ddp({{"--samples", "64"}}).at("computing_seconds"), 0.24, 1e-9);
  EXPECT_GT(ddp({{"--payload", "50%"}}).at("message_seconds").get<double>(),
            1.9 * ddp({}).at("message_seconds").get<double>());
  for (const auto& way : ways({{"--micro-batches", "2"}}))
    EXPECT_EQ(way.at("micro_batches"), way.at("stages") == 1 ? 1 : 2);
  const auto alone = ways({{"--hosts", "1"}, {"--ranks-per-host", "2"}, {"--rate", ""}});
  EXPECT_EQ(alone.size(), 6u);
}

TEST_F(PlanTrainingCommand, WhatDoesNotFitIsLastAndSaysWhy) {
  const ProgramOutcome outcome = run({{"--memory", "60MB"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("  - DistributedDataParallel"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("does not fit into 60 MB: "), std::string::npos) << outcome.out;
  EXPECT_GT(outcome.out.find("  - "), outcome.out.find("  > ")) << outcome.out;
  EXPECT_EQ(run({{"--memory", "1K"}}).out.find("  > "), std::string::npos) << "no way fits";
}

TEST_F(PlanTrainingCommand, SaysWhatItCannotRead) {
  expect_usage_error(run({{"--model", folder_ / "none.json"}}),
                     "none.json: the profile of a model cannot be opened");
  expect_usage_error(run({{"--model", folder_.path().string()}}),
                     "the profile of a model is empty or cannot be read");
  write_text("");
  expect_usage_error(run(), "model.json: the profile of a model is empty or cannot be read");
  write(model());
  expect_usage_error(run({{"--hosts", "0"}}), "--hosts 0: write a number from 1 to 128");
  expect_usage_error(run({{"--hosts", "a:2"}}), "--hosts a:2: write a number");
  expect_usage_error(run({{"--hosts", "1"}}), "1 hosts of 1 ranks: a job has 2 to 128 ranks");
  expect_usage_error(run({{"--ranks-per-host", "128"}}), "4 hosts of 128 ranks");
  expect_usage_error(run({{"--rate", ""}}), "several --hosts need --rate");
  expect_usage_error(run({{"--rate", "9.6"}}), "--rate 9.6: write a rate");
  expect_usage_error(run({{"--payload", "0"}}), "--payload 0");
  expect_usage_error(run({{"--memory", "8X"}}), "--memory 8X: write a number of bytes");
  expect_usage_error(run({{"--optimizer", "lion"}}), "--optimizer lion: it is one of sgd, momentum, adam");
  expect_usage_error(run({{"--samples", "30"}}), "--samples 30 cannot be divided among 4 ranks evenly");
  expect_usage_error(run({{"--micro-batches", "3"}}), "--micro-batches 3 do not divide the 8 samples");
  expect_usage_error(run({{"--hosts", ""}}), "--hosts is required");
}

TEST_F(PlanTrainingCommand, SaysWhatIsWrongWithTheModel) {
  write_text("layers: 3");
  expect_usage_error(run(), "model.json: this is no JSON");
  auto json = model();
  json["layers"] = nlohmann::json::array();
  write(json);
  expect_usage_error(run(), "\"layers\" is empty");
  json = model();
  json["layers"][2].erase("backward_ms");
  write(json);
  expect_usage_error(run(), "layer 2 (\"block 2\"): \"backward_ms\" is missing");
  json["layers"][2]["backward_ms"] = -1;
  write(json);
  expect_usage_error(run(), "\"backward_ms\" is -1, but must be a number from 0");
  json["layers"][2]["backward_ms"] = nullptr;  // as some programs write what is not a number
  write(json);
  expect_usage_error(run(), "\"backward_ms\" is null");
}

TEST_F(PlanTrainingCommand, TheDocumentationShowsWhatItPrints) {
  std::ifstream page(KOLO_CHOOSING_PAGE);
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string shown = run({{"--model", KOLO_PROFILE},
                                 {"--rate", "200mbit"},
                                 {"--payload", "0.956"},
                                 {"--micro-batches", "8"},
                                 {"--memory", "150MB"}})
                                .out;
  EXPECT_NE(text.find("```\n" + shown + "```"), std::string::npos)
      << "docs/choosing.md is stale: it shows another output of kolo plan training than\n"
      << shown;
}

TEST_F(PlanTrainingCommand, TeachesInItsHelp) {
  const ProgramOutcome help = run({}, {"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"kolo plan training --model model.json --hosts 4 --rate 1gbit --memory 8GiB",
                           "tensor_sums", "--micro-batches", "\"forward_ms\""})
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::test
