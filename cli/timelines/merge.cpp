#include "timelines/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include "kolo/error.hpp"

namespace kolo::timelines {
namespace {

using nlohmann::json;

constexpr double kNoTime = std::numeric_limits<double>::infinity();

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgument(path + ": " + why, {});
}

std::string name_of(const RankTimeline& one) {
  return one.host.empty() ? fmt::format("rank {}", one.rank)
                          : fmt::format("rank {} on host {}", one.rank, one.host);
}

bool is_span(const json& event) {
  return event.value("ph", "") == "X";
}

/// Lanes by number, as the file names them.
std::map<int, std::string> lanes_of(const RankTimeline& one) {
  std::map<int, std::string> lanes;
  for (const json& event : one.events) {
    if (event.value("ph", "") == "M" && event.value("name", "") == "thread_name") {
      lanes[event.at("tid").get<int>()] = event.at("args").at("name").get<std::string>();
    }
  }
  return lanes;
}

/// What the program does comes first, then what it waits for, then links in the order of peers.
std::pair<int, std::string> place_of(const std::string& lane) {
  const auto peer = lane.rfind("rank ");
  const bool is_link = lane.starts_with("to rank ") || lane.starts_with("from rank ");
  if (is_link) return {2, fmt::format("{:0>10} {}", lane.substr(peer + 5), lane)};
  return {lane == "waiting" ? 1 : 0, lane};
}

/// Before anything else reads them: every span has what is read of one.
void check_events(const std::string& path, const json& events) {
  for (const json& event : events) {
    const json& arguments = event.at("args");
    if (!arguments.is_object()) refuse(path, "an event's args are no object");
    if (!is_span(event)) continue;
    event.at("ts").get<double>();
    event.at("dur").get<double>();
    event.at("tid").get<int>();
    for (const json& rank : arguments.value("ranks", json::array())) rank.get<int>();
  }
}

json metadata(const char* what, int rank, int lane, json arguments) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", std::move(arguments)}};
}

}  // namespace

RankTimeline read_timeline(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse(path, "cannot be read");
  RankTimeline read;
  read.path = path;
  try {
    json all = json::parse(file);
    const json& about = all.is_object() ? all.value("otherData", json()) : json();
    if (!about.is_object() || about.value("format", "") != "kolo timeline") {
      refuse(path, "is not a rank's timeline (KOLO_TIMELINE=FOLDER makes the ranks of a job write theirs)");
    }
    about.at("rank").get_to(read.rank);
    about.at("host").get_to(read.host);
    about.at("group").get_to(read.group);
    about.at("wall_clock_ns").get_to(read.wall_clock_ns);
    about.at("dropped").get_to(read.dropped);
    read.events = std::move(all.at("traceEvents"));
    check_events(path, read.events);
  } catch (const json::parse_error&) {
    refuse(path, "is no JSON: not a timeline, or cut off");
  } catch (const json::exception& error) {
    refuse(path, fmt::format("is a broken timeline: {}", error.what()));
  }
  return read;
}

void check_together(std::vector<RankTimeline>& timelines) {
  std::ranges::stable_sort(timelines, {}, &RankTimeline::rank);
  for (std::size_t i = 1; i < timelines.size(); ++i) {
    const RankTimeline& one = timelines[i - 1];
    const RankTimeline& next = timelines[i];
    if (one.group != next.group) {
      refuse(next.path,
             fmt::format("is of another job than {}: the group is {}, there {}; merge one at a time",
                         one.path, next.group, one.group));
    }
    if (one.rank == next.rank) refuse(next.path, fmt::format("is rank {}, as {} is", next.rank, one.path));
  }
}

json merge(const std::vector<RankTimeline>& timelines) {
  // Every rank has read both clocks once; those of one host are the same, but not the moments.
  std::map<std::string, std::int64_t> clocks;
  for (const RankTimeline& one : timelines) clocks.try_emplace(one.host, one.wall_clock_ns);
  const std::int64_t base = timelines.front().wall_clock_ns;
  const auto shift_us = [&](const RankTimeline& one) {
    return static_cast<double>(clocks.at(one.host) - base) * 1e-3;
  };
  double first = kNoTime;
  for (const RankTimeline& one : timelines) {
    for (const json& event : one.events) {
      if (is_span(event)) first = std::min(first, event["ts"].get<double>() + shift_us(one));
    }
  }
  json events = json::array();
  for (const RankTimeline& one : timelines) {
    events.push_back(metadata("process_name", one.rank, 0, {{"name", name_of(one)}}));
    events.push_back(metadata("process_sort_index", one.rank, 0, {{"sort_index", one.rank}}));
    std::map<std::pair<int, std::string>, int> order;
    for (const auto& [number, lane] : lanes_of(one)) order[place_of(lane)] = number;
    std::map<int, int> thread;  // Perfetto shows them in the order of their numbers
    for (const auto& [place, number] : order) thread.try_emplace(number, static_cast<int>(thread.size()));
    for (const auto& [number, lane] : lanes_of(one)) {
      events.push_back(metadata("thread_name", one.rank, thread.at(number), {{"name", lane}}));
    }
    for (const json& event : one.events) {
      if (!is_span(event)) continue;
      json moved = event;
      const auto lane = thread.find(event["tid"].get<int>());
      moved["pid"] = one.rank;
      moved["tid"] = lane == thread.end() ? static_cast<int>(thread.size()) : lane->second;
      moved["ts"] = event["ts"].get<double>() + shift_us(one) - first;
      events.push_back(std::move(moved));
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

int Waiting::straggler() const {
  std::map<int, double> balance;
  for (const auto& [pair, time] : seconds) {
    balance[pair.first] -= time;
    balance[pair.second] += time;
  }
  int worst = -1;
  for (const auto& [rank, time] : balance) {
    if (time > (worst < 0 ? 0 : balance.at(worst))) worst = rank;
  }
  return worst;
}

Waiting waiting_in(const std::vector<RankTimeline>& timelines) {
  Waiting found;
  for (const RankTimeline& one : timelines) {
    const auto lanes = lanes_of(one);
    double begin = kNoTime;
    double end = 0;
    for (const json& event : one.events) {
      if (!is_span(event)) continue;
      const double at = event["ts"].get<double>();
      const double took = event["dur"].get<double>();
      begin = std::min(begin, at);
      end = std::max(end, at + took);
      const auto lane = lanes.find(event["tid"].get<int>());
      if (lane == lanes.end() || lane->second != "waiting") continue;
      const auto ranks = event["args"].value("ranks", std::vector<int>());
      for (const int rank : ranks) {
        found.seconds[{one.rank, rank}] += took * 1e-6 / static_cast<double>(ranks.size());
      }
    }
    found.span[one.rank] = std::max(0.0, (end - begin) * 1e-6);
  }
  return found;
}

}  // namespace kolo::timelines
