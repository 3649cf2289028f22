// What the Trace Event Format and Perfetto demand of a file: used on every timeline that kolo writes.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kolo::test {

/// Reads the events of one file and collects what breaks a rule.
class TraceRules {
 public:
  using Thread = std::pair<std::int64_t, std::int64_t>;  ///< process, thread

  explicit TraceRules(const nlohmann::json& trace) {
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
      refuse("there is no list traceEvents");
      return;
    }
    for (const nlohmann::json& event : trace["traceEvents"]) {
      try {
        take(event);
      } catch (const nlohmann::json::exception& error) {
        refuse(std::string(error.what()) + ": " + event.dump());
      }
    }
    for (const auto& [thread, ends] : open_) {
      if (!names_.contains(thread) || !thread_order_.contains(thread))
        refuse("a thread has no name or no sort index: " + std::to_string(thread.second));
      if (!processes_.contains(thread.first) || !process_order_.contains(thread.first))
        refuse("a process has no name or no sort index: " + std::to_string(thread.first));
    }
    if (spans_ == 0) refuse("there are no spans");
  }

  const std::vector<std::string>& problems() const { return problems_; }
  std::size_t spans() const { return spans_; }
  /// Names of a process's threads, in the order in which viewers draw them.
  std::vector<std::string> threads_of(const std::string& process) const {
    std::vector<std::string> names;
    for (const auto& [thread, name] : names_) {
      if (processes_.at(thread.first).starts_with(process)) names.push_back(name);
    }
    return names;
  }

 private:
  void refuse(const std::string& why) { problems_.push_back(why); }

  void take(const nlohmann::json& event) {
    const auto pid = event.at("pid").get<std::int64_t>();
    if (pid <= 0) refuse("process ids begin at 1: " + event.dump());
    const auto kind = event.at("ph").get<std::string>();
    const auto name = event.at("name").get<std::string>();
    if (name.empty()) refuse("an event has no name: " + event.dump());
    if (kind == "M") return take_metadata(event, pid, name);
    if (kind != "X") return refuse("neither a span nor metadata: " + event.dump());
    ++spans_;
    const auto tid = event.at("tid").get<std::int64_t>();
    if (tid <= 0) refuse("thread ids begin at 1: " + event.dump());
    if (tid == pid) refuse("viewers move a process's main thread to the front: " + event.dump());
    if (process_of_.try_emplace(tid, pid).first->second != pid)
      refuse("two processes have a thread of this id: " + event.dump());
    if (!event.at("args").is_object()) refuse("args is no object: " + event.dump());
    const double ts = event.at("ts").get<double>(), dur = event.at("dur").get<double>();
    if (!std::isfinite(ts) || !std::isfinite(dur) || ts < 0 || dur < 0)
      return refuse("viewers drop these times: " + event.dump());
    nest(event, {pid, tid}, std::llround(ts * 1000), std::llround(dur * 1000));
  }

  /// Perfetto's own rule: both times are rounded to nanoseconds, a span that ends where the next one begins
  /// is over, and all others must enclose the next one.
  void nest(const nlohmann::json& event, Thread thread, std::int64_t begin, std::int64_t length) {
    const auto [last, is_first] = last_begin_.try_emplace(thread, begin);
    if (begin < last->second) refuse("a span comes after a later one: " + event.dump());
    last->second = begin;
    std::vector<std::int64_t>& ends = open_[thread];
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty() && begin + length > ends.back()) refuse("overlaps without nesting: " + event.dump());
    ends.push_back(begin + length);
  }

  void take_metadata(const nlohmann::json& event, std::int64_t pid, const std::string& what) {
    const nlohmann::json& args = event.at("args");
    if (what == "process_name") {
      if (!processes_.try_emplace(pid, args.at("name").get<std::string>()).second)
        refuse("a second name of a process: " + event.dump());
    } else if (what == "process_sort_index") {
      process_order_[pid] = args.at("sort_index").get<std::int64_t>();
    } else if (what == "thread_name") {
      if (!names_.try_emplace({pid, event.at("tid").get<std::int64_t>()}, args.at("name").get<std::string>())
               .second)
        refuse("a second name of a thread: " + event.dump());
    } else if (what == "thread_sort_index") {
      thread_order_[{pid, event.at("tid").get<std::int64_t>()}] = args.at("sort_index").get<std::int64_t>();
    } else {
      refuse("unknown metadata: " + event.dump());
    }
  }

  std::vector<std::string> problems_;
  std::size_t spans_ = 0;
  std::map<std::int64_t, std::string> processes_;
  std::map<std::int64_t, std::int64_t> process_order_, process_of_;
  std::map<Thread, std::string> names_;
  std::map<Thread, std::int64_t> thread_order_, last_begin_;
  std::map<Thread, std::vector<std::int64_t>> open_;  ///< ends of the spans that are open, innermost last
};

}  // namespace kolo::test
