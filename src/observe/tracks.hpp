// The tracks of a timeline: their order, and how many rows a track needs whose spans overlap.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::observe {

/// Sort key of a track: the program's and "communication" first, then "waiting", then links in the order of
/// peers.
std::pair<int, std::string> track_order(std::string_view track);

/// The rows of one track. The Trace Event Format demands that two spans on one row are disjoint or nested;
/// viewers drop spans that overlap otherwise.
class TrackRows {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// The row of the next span, from 0. Spans come in the order of their begins, and among equal begins the
  /// longest comes first.
  std::size_t place(TimePoint begin, TimePoint end);
  std::size_t size() const { return ends_.size(); }

 private:
  std::vector<std::vector<TimePoint>> ends_;  ///< by row: ends of the spans that are open, innermost last
};

}  // namespace kolo::observe
