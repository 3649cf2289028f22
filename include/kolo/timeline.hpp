// Timeline: what this rank did when, for Perfetto (https://ui.perfetto.dev).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kolo {

class Communicator;

/// Collects spans (name, track, begin, end). Thread-safe; spans beyond `capacity` are counted, not kept.
///
/// A communicator that has one (Options::timeline, KOLO_TIMELINE) adds: each operation on the track
/// "communication"; each message on "to rank 3" or "from rank 3", from when it could move until it had moved;
/// and on "waiting" the times in which nothing moved, with the ranks that operations waited for.
class Timeline {
 public:
  /// A moment of the clock that spans are measured with.
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Keeps at most `capacity` spans.
  explicit Timeline(std::size_t capacity = 1u << 20);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// `track` is where the span is drawn: "compute", "communication", ... Spans of a track may nest. One that
  /// overlaps another without nesting gets a further row: "communication (2)". `arguments` is the inside of a
  /// JSON object (`"bytes":1024`) or empty.
  void span(std::string_view name, std::string_view track, TimePoint begin, TimePoint end,
            std::string_view arguments = {});
  /// Records while false; spans are dropped while true.
  void pause(bool paused);
  /// Spans that are kept.
  std::size_t size() const;
  /// Spans beyond the capacity.
  std::size_t dropped() const;

  /// Begin of the earliest span; the largest time point if there is none.
  TimePoint first_begin() const;

  /// This rank's events as the comma-separated elements of a Chrome trace's "traceEvents", in the order of
  /// their times, which are those of the steady clock plus `shift`. The process id is the rank + 1, because
  /// 0 is the idle process; a thread id occurs in one process only. `host` is a label.
  std::string chrome_events(int rank, std::string_view host = {}, std::chrono::nanoseconds shift = {}) const;
  /// How far the system's clock was ahead of the steady one when this was made. Times of ranks on one host
  /// compare directly. For ranks on several hosts, add this to the times.
  std::chrono::nanoseconds wall_clock() const;

  /// This rank's Chrome trace in a file of its own, with what `kolo trace merge` needs to put those of all
  /// ranks together. `group` is the same on all ranks of a job. Throws SystemError.
  void write(const std::string& path, int rank, std::string_view host, std::string_view group) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Collective: gathers every rank's spans and writes one Chrome trace at rank 0, by its clock. Assumes that
/// the hosts' clocks agree. Throws SystemError at rank 0 when the file cannot be written.
void write_timeline(Communicator& communicator, const Timeline& timeline, const std::string& path);

}  // namespace kolo
