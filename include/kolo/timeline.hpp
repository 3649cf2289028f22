// Timeline: what this rank did when, for Perfetto and chrome://tracing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kolo {

class Communicator;

/// Collects spans (name, lane, begin, end). Thread-safe; spans beyond `capacity` are counted, not kept.
class Timeline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Timeline(std::size_t capacity = 1u << 20);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// `lane` is the row on which the span is drawn: "compute", "communication", ... `arguments` is the inside
  /// of a JSON object (`"bytes":1024`) or empty.
  void span(std::string_view name, std::string_view lane, TimePoint begin, TimePoint end,
            std::string_view arguments = {});
  /// Records while false; spans are dropped while true.
  void pause(bool paused);
  std::size_t size() const;
  std::size_t dropped() const;

  /// This rank's events as the comma-separated elements of a Chrome trace's "traceEvents"; process id = rank.
  std::string chrome_events(int rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Collective: gathers every rank's spans and writes one Chrome trace at rank 0. Clocks are those of the
/// hosts; ranks of one host share theirs. Throws SystemError at rank 0 when the file cannot be written.
void write_timeline(Communicator& communicator, const Timeline& timeline, const std::string& path);

}  // namespace kolo
