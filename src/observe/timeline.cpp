#include "kolo/timeline.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/whole_file.hpp"
#include "observe/tracks.hpp"

namespace kolo {
namespace {

/// Thread ids of a rank begin at its process id times this, more than any rank has tracks: viewers take a
/// thread whose id is that of its process for the main thread, and name threads by their id alone.
constexpr std::int64_t kThreadIds = 10'000;

/// Digit by digit: a double has no nanoseconds left for a machine that has run for some months.
std::string microseconds(std::chrono::nanoseconds time) {
  const std::int64_t ns = time.count();
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
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
    std::size_t track;
    TimePoint begin;
    TimePoint end;
    std::string arguments;
  };

  std::size_t number_of(std::string_view track) {
    return tracks.try_emplace(std::string(track), tracks.size()).first->second;
  }
  /// Of two spans that begin together the longer one comes first, as it may enclose the other.
  std::vector<const Span*> in_order() const {
    std::vector<const Span*> order;
    for (const Span& span : spans) order.push_back(&span);
    std::ranges::stable_sort(order, [](const Span* a, const Span* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
    });
    return order;
  }

  const std::chrono::nanoseconds wall_clock = system_ahead_of_steady();
  mutable std::mutex mutex;
  std::size_t capacity = 0;
  std::size_t dropped = 0;
  std::atomic<bool> paused{false};  // relaxed: a span just then is kept or not; the mutex orders the rest
  std::map<std::string, std::size_t> tracks;  ///< numbers by name
  std::vector<Span> spans;
};

Timeline::Timeline(std::size_t capacity) : state_(std::make_unique<State>()) {
  state_->capacity = capacity;
}
Timeline::~Timeline() = default;

void Timeline::span(std::string_view name, std::string_view track, TimePoint begin, TimePoint end,
                    std::string_view arguments) {
  if (state_->paused.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->spans.size() >= state_->capacity) {
    ++state_->dropped;
    return;
  }
  state_->spans.push_back(
      {std::string(name), state_->number_of(track), begin, std::max(begin, end), std::string(arguments)});
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

Timeline::TimePoint Timeline::first_begin() const {
  const std::lock_guard lock(state_->mutex);
  TimePoint first = TimePoint::max();
  for (const State::Span& span : state_->spans) first = std::min(first, span.begin);
  return first;
}

// The Trace Event Format (Chromium project): complete events ("ph":"X") in microseconds, and metadata events
// that name and order the process and its rows.
std::string Timeline::chrome_events(int rank, std::string_view host, std::chrono::nanoseconds shift) const {
  const std::lock_guard lock(state_->mutex);
  const auto order = state_->in_order();
  std::vector<observe::TrackRows> rows(state_->tracks.size());
  std::vector<std::size_t> row_of;
  for (const State::Span* span : order) row_of.push_back(rows[span->track].place(span->begin, span->end));

  const std::int64_t pid = std::int64_t{rank} + 1;
  const std::string process =
      host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on host {}", rank, host);
  std::string out =
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":{1}}}}},)"
                  "\n"
                  R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
                  pid, json_string(process));
  std::vector<std::pair<std::string, std::size_t>> tracks(state_->tracks.begin(), state_->tracks.end());
  std::ranges::sort(tracks, {}, [](const auto& track) { return observe::track_order(track.first); });
  std::vector<std::int64_t> first_thread(rows.size());  // of each track; Perfetto draws threads by their ids
  std::int64_t thread = pid * kThreadIds;
  for (const auto& [name, track] : tracks) {
    first_thread[track] = thread + 1;
    for (std::size_t row = 0; row < rows[track].size(); ++row) {
      const std::string shown = row == 0 ? name : fmt::format("{} ({})", name, row + 1);
      out += fmt::format(
          ",\n"
          R"({{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":{2}}}}},)"
          "\n"
          R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
          pid, ++thread, json_string(shown));
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const State::Span& span = *order[i];
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        json_string(span.name), pid, first_thread[span.track] + static_cast<std::int64_t>(row_of[i]),
        microseconds(span.begin.time_since_epoch() + shift), microseconds(span.end - span.begin),
        only_utf8(span.arguments));
  }
  return out;
}

std::chrono::nanoseconds Timeline::wall_clock() const {
  return state_->wall_clock;
}

void Timeline::write(const std::string& path, int rank, std::string_view host, std::string_view group) const {
  const auto first = size() == 0 ? TimePoint() : first_begin();
  const std::chrono::nanoseconds origin = first.time_since_epoch();
  const std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"format":"kolo timeline","rank":{},"host":{},"group":{},)"
      R"("wall_clock_ns":{},"origin_ns":{},"dropped":{}}},"traceEvents":[)"
      "\n{}\n]}}\n",
      rank, json_string(host), json_string(group), wall_clock().count(), origin.count(), dropped(),
      chrome_events(rank, host, -origin));
  write_whole_file(path, text).throw_if_error();
}

}  // namespace kolo
