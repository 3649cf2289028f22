// The timelines of all ranks in one, and what they tell of waiting.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace kolo::timelines {

/// What Timeline::write() has written, without the spans themselves: a file may have a million of them.
struct RankTimeline {
  std::string path;
  int rank = -1;
  std::string host;
  std::string group;
  std::int64_t wall_clock_ns = 0;  ///< to be added to its times
  std::uint64_t dropped = 0;       ///< spans that had no room
  std::map<int, std::string> lanes;
  double begin_us = std::numeric_limits<double>::infinity();  ///< of its spans, as the file has them
  double end_us = 0;
  std::map<int, double> waited_us;  ///< for each other rank
};

/// Throws InvalidArgument that names the file when it is none.
RankTimeline read_timeline(const std::string& path);

/// In the order of ranks. Throws InvalidArgument when they are not those of one job, or one comes twice.
void check_together(std::vector<RankTimeline>& timelines);

/// Writes one Chrome trace: a process a rank, a thread a lane, times from the first event on. Ranks of one
/// host are told apart by one clock, hosts by their wall clocks. Reads the files once more. Returns how many
/// events there are.
std::size_t merge(const std::vector<RankTimeline>& timelines, std::ostream& out);

struct Waiting {
  std::map<std::pair<int, int>, double> seconds;  ///< by (who waits, for whom)
  std::map<int, double> span;                     ///< of a rank's events, first to last

  /// The rank that kept others waiting for longest, less what it waited itself; -1 when none did.
  int straggler() const;
};
Waiting waiting_in(const std::vector<RankTimeline>& timelines);

}  // namespace kolo::timelines
