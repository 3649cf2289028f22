#include "trace/merge.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/status.hpp"
#include "text/refuse.hpp"

namespace kolo::timelines {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTimeline, rank, host, group, wall_clock_ns, origin_ns, dropped)

namespace {

using nlohmann::json;

bool is_span(const json& event) {
  return event.value("ph", "") == "X";
}

/// Passes each event to `take` and does not store it. Returns the other contents of the file.
json scan(const std::string& path, const std::function<void(json&)>& take) {
  std::ifstream file(path);
  if (!file) Status::from_errno("cannot read " + path, errno).throw_if_error();
  std::string part;
  return json::parse(file, [&](int depth, json::parse_event_t what, json& parsed) {
    if (depth == 1 && what == json::parse_event_t::key) part = parsed.get<std::string>();
    const bool is_event = depth == 2 && what == json::parse_event_t::object_end && part == "traceEvents";
    if (is_event) take(parsed);
    return !is_event;
  });
}

/// What spans say about waiting, by thread id: names may follow later in the file.
struct Threads {
  std::map<std::int64_t, std::string> names;
  std::map<std::int64_t, std::map<int, double>> waited_us;  ///< by awaited rank
};

/// Reads an event; throws json::exception if a field is missing.
void note(const json& event, RankTimeline& into, Threads& threads) {
  const json& arguments = event.at("args");
  if (event.value("ph", "") == "M" && event.value("name", "") == "thread_name")
    threads.names[event.at("tid").get<std::int64_t>()] = arguments.at("name").get<std::string>();
  if (!is_span(event)) return;
  const auto thread = event.at("tid").get<std::int64_t>();
  const double at = event.at("ts").get<double>();
  const double took = event.at("dur").get<double>();
  into.begin_us = std::min(into.begin_us, at);
  into.end_us = std::max(into.end_us, at + took);
  const auto ranks = arguments.value("ranks", std::vector<int>());
  for (const int rank : ranks) threads.waited_us[thread][rank] += took / static_cast<double>(ranks.size());
}

std::int64_t nanoseconds(double microseconds) {
  return std::llround(microseconds * 1000);
}

}  // namespace

RankTimeline read_timeline(const std::string& path) {
  RankTimeline read;
  read.path = path;
  Threads threads;
  std::string broken;
  try {
    const json rest = scan(path, [&](json& event) {
      try {
        note(event, read, threads);
      } catch (const json::exception& error) {  // reported only if the file claims to be a timeline of kolo
        if (broken.empty()) broken = error.what();
      }
    });
    const json about = rest.is_object() ? rest.value("otherData", json()) : json();
    if (!about.is_object() || about.value("format", "") != "kolo timeline") {
      cli::refuse("{}: is not a rank's timeline (KOLO_TIMELINE=FOLDER makes the ranks of a job write theirs)",
                  path);
    }
    about.get_to(read);
    if (rest.at("traceEvents") != json::array()) broken = "traceEvents has more than events";
  } catch (const json::parse_error&) {
    cli::refuse("{}: is no JSON: it is not a timeline, or it was cut off", path);
  } catch (const json::exception& error) {
    broken = error.what();
  }
  if (!broken.empty()) cli::refuse("{}: is a broken timeline: {}", path, broken);
  for (const auto& [thread, name] : threads.names) {
    if (name != "waiting" && !name.starts_with("waiting (")) continue;
    for (const auto& [rank, time] : threads.waited_us[thread]) read.waited_us[rank] += time;
  }
  return read;
}

void check_together(std::vector<RankTimeline>& timelines) {
  std::ranges::stable_sort(timelines, {}, &RankTimeline::rank);
  for (std::size_t i = 1; i < timelines.size(); ++i) {
    const RankTimeline& one = timelines[i - 1];
    const RankTimeline& next = timelines[i];
    if (one.group != next.group) {
      cli::refuse(
          "{}: is of another job than {}: its group is {}, not {}; merge the files of one job at a "
          "time",
          next.path, one.path, next.group, one.group);
    }
    if (one.rank == next.rank) cli::refuse("{}: is of rank {}, as {} is", next.path, next.rank, one.path);
  }
}

std::size_t merge(const std::vector<RankTimeline>& timelines, std::ostream& out) {
  // Each rank has read both clocks once. Ranks of one host share both clocks but read them at different
  // times, so one rank's offset is used for all.
  std::map<std::string, std::int64_t> clocks;
  for (const RankTimeline& one : timelines) clocks.try_emplace(one.host, one.wall_clock_ns);
  const auto origin = [&](const RankTimeline& one) { return clocks.at(one.host) + one.origin_ns; };
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const RankTimeline& one : timelines) {
    if (std::isfinite(one.begin_us)) first = std::min(first, origin(one) + nanoseconds(one.begin_us));
  }
  std::size_t events = 0;
  const auto put = [&](const json& event) {
    out << (events++ == 0 ? "" : ",\n") << event.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const RankTimeline& one : timelines) {
    scan(one.path, [&](json& event) {
      if (is_span(event)) {
        const std::int64_t at = origin(one) + nanoseconds(event.at("ts").get<double>()) - first;
        event["ts"] = static_cast<double>(at) / 1000;
      }
      put(event);
    });
  }
  out << "\n]}\n";
  return events;
}

int Waiting::straggler() const {
  int worst = -1;
  double most = 0;
  for (const auto& [rank, time] : for_rank) {
    const auto own = of_rank.find(rank);
    const double balance = time - (own == of_rank.end() ? 0 : own->second);
    if (balance <= most) continue;
    worst = rank;
    most = balance;
  }
  return worst;
}

Waiting waiting_in(const std::vector<RankTimeline>& timelines) {
  Waiting found;
  for (const RankTimeline& one : timelines) {
    for (const auto& [rank, time_us] : one.waited_us) {
      const double time = found.seconds[{one.rank, rank}] = time_us * 1e-6;
      found.of_rank[one.rank] += time;
      found.for_rank[rank] += time;
    }
    found.span[one.rank] = std::max(0.0, (one.end_us - one.begin_us) * 1e-6);
  }
  return found;
}

}  // namespace kolo::timelines
