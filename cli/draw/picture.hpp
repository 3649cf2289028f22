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

/// What no algorithm of the collective can do with less, in the one-port model of Timetable: E. Chan et al.:
/// Collective communication: theory, practice, and experience, CCPE 19 (2007), section 3.
struct Least {
  std::uint64_t steps = 0;  ///< ceil(log2 N)
  std::string through;      ///< bytes that some rank must send, or receive: "2(N-1)/N K"; K: the whole data
  double through_of_whole = 0;  ///< the same as a multiple of K
};
Least least_of(Collective collective, int ranks);

/// A value.
struct Picture {
  Configured configured;
  ScheduleSpec spec;     ///< of the whole; its rank does not matter
  StepsAndBytes stated;  ///< by the algorithm's closed form
  Least least;
  Frames frames;
  Layout layout;
  /// Cells show who has contributed, a slot for each rank; else only whether a chunk is there, which has one
  /// contributor anyway.
  bool slot_per_rank = false;
  /// Where all data comes from one rank, colours tell chunks apart, else ranks.
  bool colour_per_part = false;
  std::vector<std::string> colours;  ///< "#rrggbb" of each rank or chunk

  Collective collective() const { return configured.algorithm->collective; }
  int root() const { return has_root(collective()) ? spec.root : -1; }
  /// "all_reduce: ring, 8 ranks".
  std::string title() const;
  /// `chunks` as a multiple of the whole data K: "1.75 K".
  std::string of_whole(std::uint64_t chunks) const;
};

/// More ranks, and more messages, than this are no picture any more.
inline constexpr int kMostRanks = 64;
inline constexpr std::uint64_t kMostMessages = 20'000;

/// Proves the algorithm's schedules and plays them; an error where they cannot serve the spec or are too
/// many to draw.
Result<Picture> make_picture(const Configured& configured, const ScheduleSpec& spec);

}  // namespace kolo::draw
