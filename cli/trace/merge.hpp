// Merges the timelines of all ranks, and computes how long ranks waited for each other.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace kolo::timelines {

/// The metadata of a file of Timeline::write(), without its spans, of which there may be a million.
struct RankTimeline {
  std::string path;
  int rank = -1;
  std::string host;
  std::string group;
  std::int64_t wall_clock_ns = 0;  ///< how far the system's clock was ahead of the steady one
  std::int64_t origin_ns = 0;      ///< the steady clock at time 0 of the file
  std::uint64_t dropped = 0;       ///< spans that did not fit into memory
  double begin_us = std::numeric_limits<double>::infinity();  ///< first begin of a span, as in the file
  double end_us = 0;
  std::map<int, double> waited_us;  ///< time waited for each peer
};

/// Throws InvalidArgumentError that names the file if it is not a timeline.
RankTimeline read_timeline(const std::string& path);

/// Sorts by rank. Throws InvalidArgumentError if the timelines are not of one job, or a rank occurs twice.
void check_together(std::vector<RankTimeline>& timelines);

/// Writes one Chrome trace of the files' events, with times relative to the first span and hosts aligned by
/// their wall clocks. Reads the files a second time. Returns the number of events.
std::size_t merge(const std::vector<RankTimeline>& timelines, std::ostream& out);

struct Waiting {
  std::map<std::pair<int, int>, double> seconds;  ///< by (waiting rank, awaited rank)
  std::map<int, double> for_rank;                 ///< of all ranks together, by awaited rank
  std::map<int, double> of_rank;                  ///< for all ranks together, by waiting rank
  std::map<int, double> span;                     ///< from a rank's first event to its last

  /// The rank for which its peers waited the longest, minus its own waiting time; -1 if no rank waited.
  int straggler() const;
};
Waiting waiting_in(const std::vector<RankTimeline>& timelines);

}  // namespace kolo::timelines
