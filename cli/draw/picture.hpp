// Picture: all that a drawing of an algorithm shows, whatever the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/status.hpp"
#include "draw/frames.hpp"
#include "draw/layout.hpp"

namespace kolo::draw {

/// Lower bounds for all algorithms of the collective, in the one-port model of Timetable: E. Chan et al.:
/// Collective communication: theory, practice, and experience, CCPE 19 (2007), section 3.
struct Least {
  std::uint64_t steps = 0;  ///< ceil(log2 N)
  std::string through;  ///< bytes that at least one rank must send or receive: "2(N-1)/N n"; n: those of the
                        ///< whole data
  double through_of_whole = 0;  ///< these bytes as a multiple of n
};
Least least_of(schedule::Collective collective, int ranks);

/// A value.
struct Picture {
  algorithms::ConfiguredAlgorithm configured;
  algorithms::ScheduleSpec spec;     ///< of the whole; its rank does not matter
  algorithms::StepsAndBytes stated;  ///< by the algorithm's closed form
  Least least;
  Frames frames;
  std::vector<Run> runs;  ///< the phases that the steps belong to
  Layout layout;
  /// True: a cell has a slot for each contributing rank. False: it shows whether the chunk has arrived.
  bool slot_per_rank = false;
  /// Colours distinguish chunks if all data comes from one rank, else ranks.
  bool colour_per_part = false;
  std::vector<std::string> colours;  ///< "#rrggbb" of each rank or chunk

  schedule::Collective collective() const { return configured.algorithm->collective; }
  int root() const { return schedule::has_root(collective()) ? spec.root : -1; }
  /// "all_reduce: ring, 8 ranks".
  std::string title() const;
  /// `chunks` in bytes, where the whole data has n: "1.75 n".
  std::string of_whole(std::uint64_t chunks) const;
};

/// Limits on ranks and messages: a larger picture is not readable.
inline constexpr int kMostRanks = 64;
inline constexpr std::uint64_t kMostMessages = 20'000;

/// Proves the algorithm's schedules and plays them. Returns an error if the algorithm cannot serve the spec
/// or the schedules are too large to draw.
Result<Picture> make_picture(const algorithms::ConfiguredAlgorithm& configured,
                             const algorithms::ScheduleSpec& spec);

}  // namespace kolo::draw
