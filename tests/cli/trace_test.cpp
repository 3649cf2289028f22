// kolo trace merge: merges the timelines of a real job, and refuses files that are not timelines.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "command.hpp"
#include "support/temporary_folder.hpp"
#include "trace/merge.hpp"

namespace kolo::timelines {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Command;

class Trace : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  std::string refusal(std::vector<std::string> files, int code = 2) const {
    files.insert(files.begin(), {KOLO_PROGRAM, "trace", "merge", "-o", path("out")});
    Command command(files);
    EXPECT_EQ(command.finish(), code) << command.out();
    return command.err();
  }

  const test::TemporaryFolder folder_;
};

/// A timeline in which `rank` waits for rank `awaited` for two seconds from `begin_us`, by its own steady
/// clock.
constexpr std::int64_t kOriginUs = 1;
std::string timeline(int rank, const std::string& host, std::int64_t wall_clock_ns, double begin_us,
                     int awaited = 1) {
  const json events = {
      {{"ph", "M"}, {"name", "thread_name"}, {"pid", rank + 1}, {"tid", 4}, {"args", {{"name", "waiting"}}}},
      {{"ph", "X"},
       {"name", "for rank 1"},
       {"pid", rank + 1},
       {"tid", 4},
       {"ts", begin_us - kOriginUs},
       {"dur", 2e6},
       {"args", {{"ranks", {awaited}}}}}};
  return json{{"otherData",
               {{"format", "kolo timeline"},
                {"rank", rank},
                {"host", host},
                {"group", "g"},
                {"wall_clock_ns", wall_clock_ns},
                {"origin_ns", kOriginUs * 1000},
                {"dropped", 0}}},
              {"traceEvents", events}}
      .dump();
}

TEST_F(Trace, HostsAreAlignedByTheirWallClocksAndOneHostByItsOwn) {
  std::vector<RankTimeline> ranks;
  // Host b started 100 s later. Rank 2's offset of its host's clock is slightly different, and is not used.
  ranks.push_back(read_timeline(file("0", timeline(0, "a", 5'000'000'000'000, 300e6))));
  ranks.push_back(read_timeline(file("2", timeline(2, "a", 5'000'000'500'000, 301e6))));
  ranks.push_back(read_timeline(file("3", timeline(3, "b", 5'100'000'000'000, 202e6))));
  check_together(ranks);
  std::map<int, double> at;
  std::stringstream text;
  EXPECT_EQ(merge(ranks, text), 3u * (1 + 1));
  const json merged = json::parse(text);
  for (const json& event : merged["traceEvents"]) {
    if (event["ph"] == "X") at[event["pid"].get<int>() - 1] = event["ts"].get<double>();
  }
  EXPECT_NEAR(at[0], 0, 1e-3);
  EXPECT_NEAR(at[2], 1e6, 1e-3);
  EXPECT_NEAR(at[3], 2e6, 1e-3);
  const Waiting waiting = waiting_in(ranks);
  EXPECT_NEAR(waiting.seconds.at({0, 1}), 2, 1e-6);
  EXPECT_EQ(waiting.straggler(), 1);
}

TEST_F(Trace, TheSlowestRankIsTold) {
  Command merging({KOLO_PROGRAM, "trace", "merge", "-o", path("out"), file("0", timeline(0, "a", 1, 1)),
                   file("1", timeline(1, "b", 1, 1, 0)), file("2", timeline(2, "a", 1, 1))});
  EXPECT_EQ(merging.finish(), 0) << merging.err();
  EXPECT_NE(merging.out().find("\nRank 1 on b delayed the job most: the other ranks waited 4.000 s for it in "
                               "all,\nand it waited 2.000 s for them.\n"),
            std::string::npos)
      << merging.out();
}

TEST_F(Trace, WhatIsNoTimelineIsNamed) {
  const std::string good = file("good", timeline(0, "a", 1, 1));
  EXPECT_NE(refusal({path("missing")}, 1).find("missing: No such file"), std::string::npos);
  EXPECT_NE(refusal({good, file("text", "hello")}).find("text: is no JSON"), std::string::npos);
  EXPECT_NE(refusal({good, file("cut", timeline(1, "a", 1, 1).substr(0, 100))}).find("was cut off"),
            std::string::npos);
  EXPECT_NE(refusal({good, file("list", "[]")}).find("KOLO_TIMELINE"), std::string::npos);
  EXPECT_NE(refusal({good, file("twin", timeline(0, "a", 1, 1))}).find("is of rank 0, as"),
            std::string::npos);
  json other = json::parse(timeline(1, "a", 1, 1));
  other["otherData"]["group"] = "h";
  EXPECT_NE(refusal({good, file("other", other.dump())}).find("of another job"), std::string::npos);
  json broken = json::parse(timeline(1, "a", 1, 1));
  broken["traceEvents"][1]["ts"] = "soon";
  EXPECT_NE(refusal({good, file("broken", broken.dump())}).find("broken timeline"), std::string::npos);
}

TEST_F(Trace, AFileIsNotMergedIntoItself) {
  const std::string text = timeline(0, "a", 1, 1);
  EXPECT_NE(refusal({file("out", text)}).find("cannot be the output"), std::string::npos);
  EXPECT_EQ(json::parse(std::ifstream(path("out"))), json::parse(text));
}

TEST_F(Trace, AnOutputThatCannotBeWrittenIsFoundBeforeAllIsRead) {
  const std::string nowhere = path("no/where.json");
  Command merging({KOLO_PROGRAM, "trace", "merge", "-o", nowhere, path("missing")});
  EXPECT_EQ(merging.finish(), 1) << merging.out();
  EXPECT_NE(merging.err().find("cannot write " + nowhere + ": No such file or directory"), std::string::npos)
      << merging.err();
  Command full({KOLO_PROGRAM, "trace", "merge", "-o", "/dev/full", file("good", timeline(0, "a", 1, 1))});
  EXPECT_EQ(full.finish(), 1) << full.out();
  EXPECT_NE(full.err().find("cannot write /dev/full: No space left"), std::string::npos) << full.err();
}

TEST_F(Trace, MillionsOfSpansNeedNoMemory) {
  const std::string text = timeline(0, "a", 1, 1);
  const std::string span = json::parse(text)["traceEvents"].back().dump();
  ASSERT_TRUE(text.ends_with("]}"));
  // Written without a large buffer here, because a forked child would inherit its memory.
  std::ofstream many(path("big"));
  many << text.substr(0, text.size() - 2);
  for (int i = 0; i < 100'000; ++i) many << ',' << span;
  many << "]}";
  many.close();
  Command merging({KOLO_PROGRAM, "trace", "merge", "-o", path("out"), path("big")});
  EXPECT_EQ(merging.finish(), 0) << merging.err();
  EXPECT_NE(merging.out().find("100002 events"), std::string::npos) << merging.out();
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  EXPECT_LT(used.ru_maxrss, 60'000) << "KiB; a span took 2";
}

TEST_F(Trace, AFolderThatCannotBeMadeIsFoundBeforeTheJob) {
  const std::string good = file("good", "");
  Command job({KOLO_PROGRAM, "bench", "all_reduce", "--ranks", "2", "--sizes", "8", "--iterations", "1"},
              {{"KOLO_TIMELINE", good + "/t"}});
  EXPECT_EQ(job.finish(), 2) << job.out();
  EXPECT_NE(job.err().find("KOLO_TIMELINE=" + good + "/t: Not a directory"), std::string::npos) << job.err();
  EXPECT_EQ(job.out().find("All results are right"), std::string::npos) << job.out();
}

TEST_F(Trace, ARealJobHasATrackALinkAndNoOverlapsOnIt) {
  Command job({KOLO_PROGRAM, "bench", "all_reduce", "--ranks", "3", "--transport", "tcp", "--sizes", "1M",
               "--iterations", "30"},
              {{"KOLO_TIMELINE", path("made/here")}});
  ASSERT_EQ(job.finish(), 0) << job.err();
  std::vector<std::string> command = {KOLO_PROGRAM, "trace", "merge", "-o", path("out")};
  for (const auto& entry : fs::directory_iterator(path("made/here")))
    command.push_back(entry.path().string());
  ASSERT_EQ(command.size(), 5u + 3u);
  Command merging(command);
  ASSERT_EQ(merging.finish(), 0) << merging.err();
  EXPECT_NE(merging.out().find("3 ranks"), std::string::npos) << merging.out();

  const json merged = json::parse(std::ifstream(path("out")));
  std::set<std::string> tracks;
  std::map<std::pair<int, int>, double> ended;
  std::map<std::pair<int, int>, std::string> names;
  for (const json& event : merged["traceEvents"]) {
    const std::pair<int, int> track(event["pid"].get<int>(), event.value("tid", 0));
    if (event["name"] == "thread_name") {
      names[track] = event["args"]["name"];
      tracks.insert("rank " + std::to_string(track.first - 1) + " " + names[track]);
    }
    if (event["name"] == "process_name") {
      EXPECT_TRUE(event["args"]["name"].get<std::string>().starts_with(
          "rank " + std::to_string(track.first - 1) + " on host "));
    }
    if (event["ph"] != "X" || names[track].find("rank") == std::string::npos) continue;
    EXPECT_GE(event["ts"].get<double>(), ended[track] - 0.002) << names[track] << ": " << event;
    ended[track] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  for (int rank = 0; rank < 3; ++rank) {
    const std::string process = "rank " + std::to_string(rank);
    EXPECT_TRUE(tracks.contains(process + " communication"));
    EXPECT_TRUE(tracks.contains(process + " to rank " + std::to_string((rank + 1) % 3))) << process;
    EXPECT_TRUE(tracks.contains(process + " from rank " + std::to_string((rank + 2) % 3))) << process;
  }
}

}  // namespace
}  // namespace kolo::timelines
