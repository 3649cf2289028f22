#include "observe/tracks.hpp"

#include <fmt/format.h>

namespace kolo::observe {

std::pair<int, std::string> track_order(std::string_view track) {
  const bool is_link = track.starts_with("to rank ") || track.starts_with("from rank ");
  if (is_link) return {2, fmt::format("{:0>10} {}", track.substr(track.rfind(' ') + 1), track)};
  return {track == "waiting" ? 1 : 0, std::string(track)};
}

std::size_t TrackRows::place(TimePoint begin, TimePoint end) {
  for (std::size_t row = 0; row < ends_.size(); ++row) {
    std::vector<TimePoint>& open = ends_[row];
    while (!open.empty() && open.back() <= begin) open.pop_back();
    if (!open.empty() && end > open.back()) continue;
    open.push_back(end);
    return row;
  }
  ends_.push_back({end});
  return ends_.size() - 1;
}

}  // namespace kolo::observe
