#include "kolo/timeline.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

namespace kolo {
namespace {

double microseconds(Timeline::TimePoint at) {
  return std::chrono::duration<double, std::micro>(at.time_since_epoch()).count();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

struct Timeline::State {
  struct Span {
    std::string name;
    int lane;
    TimePoint begin;
    TimePoint end;
    std::string arguments;
  };

  int lane_of(std::string_view lane) {
    const auto [it, added] = lanes.try_emplace(std::string(lane), static_cast<int>(lanes.size()));
    return it->second;
  }

  mutable std::mutex mutex;
  std::size_t capacity = 0;
  std::size_t dropped = 0;
  std::atomic<bool> paused{false};
  std::map<std::string, int, std::less<>> lanes;
  std::vector<Span> spans;
};

Timeline::Timeline(std::size_t capacity) : state_(std::make_unique<State>()) {
  state_->capacity = capacity;
}
Timeline::~Timeline() = default;

void Timeline::span(std::string_view name, std::string_view lane, TimePoint begin, TimePoint end,
                    std::string_view arguments) {
  if (state_->paused.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->spans.size() >= state_->capacity) {
    ++state_->dropped;
    return;
  }
  state_->spans.push_back({std::string(name), state_->lane_of(lane), begin, end, std::string(arguments)});
}

void Timeline::pause(bool paused) {
  state_->paused.store(paused);
}

std::size_t Timeline::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->spans.size();
}

std::size_t Timeline::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

// The Trace Event Format (Chromium project): complete events ("ph":"X") in microseconds, and metadata events
// that name the process and its rows.
std::string Timeline::chrome_events(int rank) const {
  const std::lock_guard lock(state_->mutex);
  std::string out = fmt::format(
      R"({{"ph":"M","name":"process_name","pid":{0},"tid":0,"args":{{"name":"rank {0}"}}}})", rank);
  for (const auto& [name, lane] : state_->lanes) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
        rank, lane, quoted(name));
  }
  for (const State::Span& span : state_->spans) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        quoted(span.name), rank, span.lane, microseconds(span.begin),
        microseconds(span.end) - microseconds(span.begin), span.arguments);
  }
  return out;
}

}  // namespace kolo
