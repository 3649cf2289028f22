// Every timeline that kolo writes follows the rules of the Trace Event Format: Perfetto drops what does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "command.hpp"
#include "kolo/timeline.hpp"
#include "support/temporary_folder.hpp"
#include "trace_rules.hpp"

namespace kolo::timelines {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using test::Command;
using test::TraceRules;

json parse(const fs::path& path) {
  return json::parse(std::ifstream(path));
}

class TraceFormat : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  /// The files that ranks have left in `folder`.
  std::vector<std::string> files(const std::string& folder) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path(folder))) found.push_back(entry.path().string());
    return found;
  }

  std::string merged(const std::string& folder) const {
    std::vector<std::string> command = {KOLO_PROGRAM, "trace", "merge", "-o", path(folder + ".json")};
    for (const std::string& file : files(folder)) command.push_back(file);
    Command merging(command);
    EXPECT_EQ(merging.finish(), 0) << merging.err();
    return path(folder + ".json");
  }

  const test::TemporaryFolder folder_;
};

std::string first_problems(const TraceRules& rules) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(rules.problems().size(), 5); ++i)
    text += rules.problems()[i] + '\n';
  return std::to_string(rules.problems().size()) + " problems:\n" + text;
}

/// "communication (2)" is a row of the track "communication".
std::vector<std::string> tracks(std::vector<std::string> threads) {
  for (std::string& name : threads) name.resize(std::min(name.find(" ("), name.size()));
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

TEST_F(TraceFormat, EveryFileOfAJobWhoseCallsOverlap) {
  for (const std::string transport : {"shm", "tcp"}) {
    Command job({KOLO_PROGRAM, "run", "-n", "3", "--", TIMELINE_PROGRAM, path(transport + "-own.json")},
                {{"KOLO_TIMELINE", path(transport)}, {"KOLO_TRANSPORTS", transport}});
    ASSERT_EQ(job.finish(), 0) << job.err();
    std::size_t spans = 0;
    for (const std::string& file : files(transport)) {
      const TraceRules rules(parse(file));
      EXPECT_TRUE(rules.problems().empty()) << file << ": " << first_problems(rules);
      spans += rules.spans();
    }
    for (const std::string& file : {merged(transport), path(transport + "-own.json")}) {
      const TraceRules rules(parse(file));
      EXPECT_TRUE(rules.problems().empty()) << file << ": " << first_problems(rules);
      for (const std::string rank : {"rank 0", "rank 1", "rank 2"}) {
        const auto rows = rules.threads_of(rank);
        EXPECT_EQ(std::count(rows.begin(), rows.end(), "data (2)"), 1);
        auto order = tracks(rows);
        const std::vector<std::string> own = {"communication", "compute", "data"};
        ASSERT_GE(order.size(), own.size());
        EXPECT_TRUE(std::equal(own.begin(), own.end(), order.begin())) << ::testing::PrintToString(order);
        order.erase(order.begin(), order.begin() + 3);
        if (!order.empty() && order[0] == "waiting") order.erase(order.begin());
        std::vector<std::string> links;
        for (char peer = '0'; peer < '3'; ++peer) {
          for (const std::string direction : {"from rank ", "to rank "}) links.push_back(direction + peer);
        }
        std::erase_if(links, [&](const std::string& link) {
          return std::find(order.begin(), order.end(), link) == order.end();
        });
        EXPECT_EQ(order, links);
        EXPECT_FALSE(links.empty());
      }
    }
    EXPECT_EQ(TraceRules(parse(path(transport + ".json"))).spans(), spans);
  }
}

TEST_F(TraceFormat, ARankThatIsKilledLeavesNoFileAndTheOthersWholeOnes) {
  Command job({KOLO_PROGRAM, "run", "-n", "3", "--keep-going", "--", TIMELINE_PROGRAM, path("none"), "1"},
              {{"KOLO_TIMELINE", path("killed")}});
  EXPECT_NE(job.finish(), 0);
  EXPECT_NE(job.err().find("rank 1"), std::string::npos) << job.err();
  std::set<std::string> processes;
  for (const std::string& file : files("killed")) {
    const json trace = parse(file);
    const TraceRules rules(trace);
    EXPECT_TRUE(rules.problems().empty()) << first_problems(rules);
    processes.insert("rank " + trace["otherData"]["rank"].dump());
  }
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0", "rank 2"}));
}

TEST_F(TraceFormat, OneRowHoldsWhatNestsOrTouchesAndNoMore) {
  Timeline timeline;
  const Timeline::TimePoint zero(
      1'000'000h);  // a machine that has run for a century: doubles have no ns left
  const auto span = [&](const char* name, int begin, int end) {
    timeline.span(name, "track", zero + std::chrono::nanoseconds(begin),
                  zero + std::chrono::nanoseconds(end));
  };
  span("inner", 10, 20);  // given before the span that encloses it, as they end in this order
  span("outer", 0, 20);
  span("touching", 20, 30);
  span("overlapping", 25, 35);
  span("third", 26, 36);
  span("instant", 35, 35);
  span("backwards", 41, 40);
  timeline.write(path("rows.json"), 0, "", "g");
  const json trace = parse(path("rows.json"));
  const TraceRules rules(trace);
  EXPECT_TRUE(rules.problems().empty()) << first_problems(rules);
  EXPECT_EQ(rules.threads_of("rank 0"), (std::vector<std::string>{"track", "track (2)", "track (3)"}));
  EXPECT_EQ(trace["otherData"]["origin_ns"], zero.time_since_epoch() / 1ns);
  std::map<std::string, int> row;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") row[event["name"]] = event["tid"].get<int>() - 10'000;
    if (event["name"] == "overlapping") {
      EXPECT_EQ(event["ts"], 0.025);
    }
  }
  EXPECT_EQ(row, (std::map<std::string, int>{{"inner", 1},
                                             {"outer", 1},
                                             {"touching", 1},
                                             {"overlapping", 2},
                                             {"third", 3},
                                             {"instant", 1},
                                             {"backwards", 1}}));
}

TEST_F(TraceFormat, TheRulesFindWhatBreaksThem) {
  Timeline timeline;
  const auto now = std::chrono::steady_clock::now();
  timeline.span("a", "track", now, now + 10us);
  timeline.span("b", "track", now + 10us, now + 20us);
  timeline.write(path("good.json"), 0, "", "g");
  const json good = parse(path("good.json"));
  ASSERT_TRUE(TraceRules(good).problems().empty());
  const auto problems = [&](const std::function<void(json&)>& breaks) {
    json bad = good;
    breaks(bad["traceEvents"]);
    return TraceRules(bad).problems().size();
  };
  EXPECT_GT(problems([](json& events) { events.clear(); }), 0u);
  EXPECT_GT(problems([](json& events) { events.erase(0); }), 0u);                // the process's name
  EXPECT_GT(problems([](json& events) { events.erase(2); }), 0u);                // the track's name
  EXPECT_GT(problems([](json& events) { events.erase(3); }), 0u);                // its sort index
  EXPECT_GT(problems([](json& events) { events.back()["ts"] = 9.999; }), 0u);    // overlaps
  EXPECT_GT(problems([](json& events) { events.back()["dur"] = -1; }), 0u);      // ends before it begins
  EXPECT_GT(problems([](json& events) { events.back()["ts"] = nullptr; }), 0u);  // not finite
  EXPECT_GT(problems([](json& events) { std::swap(events.back(), events[4]); }), 0u);  // not in order
  EXPECT_GT(problems([](json& events) {
              for (json& e : events) e["pid"] = 0;
            }),
            0u);
  EXPECT_GT(problems([](json& events) { events.back()["tid"] = 0; }), 0u);
  EXPECT_GT(problems([](json& events) { events.back()["tid"] = events.back()["pid"]; }), 0u);
}

}  // namespace
}  // namespace kolo::timelines
