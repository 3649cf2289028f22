// Frames: what every rank holds after each step, and the messages that brought it there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo::draw {

/// A value of one part of the whole data: whose contributions are in it. Sets have numbers, see Frames::sets.
struct Value {
  std::uint32_t part = 0;
  std::uint32_t set = 0;

  bool operator==(const Value&) const = default;
};

struct Message {
  int from = 0;
  int to = 0;
  bool reduces = false;  ///< the receiver combines it with what it has; else it stores it
  std::vector<Value> values;
};

/// What a rank holds of one part, wherever in its memory: the values of which none is contained in another.
struct Cell {
  std::vector<std::uint32_t> sets;  ///< in ascending order of their first ranks
  bool done = false;                ///< the rank's result, and right

  bool operator==(const Cell&) const = default;
};

/// Sums from the first step on, in chunks, all equally long; each the largest over the ranks or links.
struct Moved {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t link = 0;  ///< from one rank to one other
};

struct Frame {
  std::vector<Message> messages;         ///< of this step; none in frame 0
  std::vector<std::vector<Cell>> cells;  ///< [rank][part], after it
  Moved moved;                           ///< up to and with it
};

/// A value. Steps are those of Timetable: a rank sends at most one message in each and receives at most one.
struct Frames {
  std::uint32_t parts = 0;                 ///< that the collective's whole data has; 1 for a barrier
  std::vector<std::vector<int>> sets;      ///< the ranks in each, in ascending order
  std::vector<std::vector<bool>> results;  ///< [rank][part]: whether the rank is to end with it
  std::vector<Frame> frames;               ///< before the first step, and after each

  std::size_t steps() const { return frames.size() - 1; }
  int ranks() const { return static_cast<int>(frames[0].cells.size()); }
};

/// Plays schedules that check_schedules() has passed, in place where they may be. A barrier's ranks hold the
/// knowledge of who has come.
Frames play(std::span<const Schedule> schedules);

}  // namespace kolo::draw
