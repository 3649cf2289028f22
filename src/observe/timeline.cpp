#include "kolo/timeline.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/whole_file.hpp"

namespace kolo {
namespace {

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// How far the system's clock is ahead of the steady one. The two cannot be read at once, and this thread may
/// be interrupted in between, so the quickest reading counts.
std::chrono::nanoseconds system_ahead_of_steady() {
  using Steady = std::chrono::steady_clock;
  constexpr int kReadings = 16;
  auto quickest = Steady::duration::max();
  std::chrono::nanoseconds ahead{};
  for (int i = 0; i < kReadings; ++i) {
    const auto before = Steady::now();
    const auto system = std::chrono::system_clock::now().time_since_epoch();
    const auto took = Steady::now() - before;
    if (took >= quickest) continue;
    quickest = took;
    ahead = system - (before + took / 2).time_since_epoch();
  }
  return ahead;
}

/// Bytes of the character that `text` begins with; 0 where that is not UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t bytes = first < 0x80                   ? 1
                            : first < 0xc2 || first > 0xf4 ? 0
                            : first < 0xe0                 ? 2
                            : first < 0xf0                 ? 3
                                                           : 4;
  if (bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half of a UTF-16 pair, or beyond the last character.
  const bool bad = bytes > 1 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                                 (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f));
  return bad ? 0 : bytes;
}

/// Replaces what is not UTF-8: one such byte would make the whole file unreadable.
std::string only_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    out += bytes > 0 ? text.substr(0, bytes) : "\xef\xbf\xbd";  // the replacement character
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : only_utf8(text)) {
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

  const std::chrono::nanoseconds wall_clock = system_ahead_of_steady();
  mutable std::mutex mutex;
  std::size_t capacity = 0;
  std::size_t dropped = 0;
  std::atomic<bool> paused{false};  // relaxed: a span just then is kept or not; the mutex orders the rest
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
std::string Timeline::chrome_events(int rank, std::string_view host, std::chrono::nanoseconds shift) const {
  const std::lock_guard lock(state_->mutex);
  const std::string process =
      host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on host {}", rank, host);
  std::string out = fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})",
                                rank, json_string(process));
  for (const auto& [name, lane] : state_->lanes) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
        rank, lane, json_string(name));
  }
  for (const State::Span& span : state_->spans) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        json_string(span.name), rank, span.lane, microseconds(span.begin.time_since_epoch() + shift),
        microseconds(span.end - span.begin), only_utf8(span.arguments));
  }
  return out;
}

std::chrono::nanoseconds Timeline::wall_clock() const {
  return state_->wall_clock;
}

void Timeline::write(const std::string& path, int rank, std::string_view host, std::string_view group) const {
  const std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"format":"kolo timeline","rank":{},"host":{},"group":{},)"
      R"("wall_clock_ns":{},"dropped":{}}},"traceEvents":[)"
      "\n{}\n]}}\n",
      rank, json_string(host), json_string(group), wall_clock().count(), dropped(),
      chrome_events(rank, host));
  write_whole_file(path, [&](std::ostream& file) { file << text; }).throw_if_error();
}

}  // namespace kolo
