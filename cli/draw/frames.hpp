// Frames: what every rank holds after each step, and the messages that brought it there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "draw/phases.hpp"
#include "schedule/schedule.hpp"

namespace kolo::draw {

/// A value of one part of the whole data: the number of the set of contributing ranks, see Frames::sets.
struct Value {
  std::uint32_t part = 0;
  std::uint32_t set = 0;

  bool operator==(const Value&) const = default;
};

struct Message {
  int from = 0;
  int to = 0;
  bool reduces = false;  ///< the receiver reduces it into its value; else it stores it
  std::vector<Value> values;
  Phase phase = Phase::none;  ///< what the message is for
};

/// The values of one part in a rank's memory, without values that are contained in another value.
struct Cell {
  std::vector<std::uint32_t> sets;  ///< in ascending order of their first ranks
  bool done = false;                ///< the rank's result, and right

  bool operator==(const Cell&) const = default;
};

/// Totals since the first step, in chunks of equal length; each is the maximum over the ranks or links.
struct Moved {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t link = 0;  ///< from one rank to another rank
};

struct Frame {
  std::vector<Message> messages;         ///< of this step; none in frame 0
  std::vector<std::vector<Cell>> cells;  ///< [rank][part], after this step
  Moved moved;                           ///< up to and including this step
};

/// A value. Steps are those of Timetable: a rank sends at most one message in each and receives at most one.
struct Frames {
  std::uint32_t parts = 0;                 ///< that the collective's whole data has; 1 for a barrier
  std::vector<std::vector<int>> sets;      ///< the ranks in each, in ascending order
  std::vector<std::vector<bool>> results;  ///< [rank][part]: whether the part is a result of the rank
  std::vector<Frame> frames;               ///< before the first step, and after each

  std::size_t steps() const { return frames.size() - 1; }
  int ranks() const { return static_cast<int>(frames[0].cells.size()); }
};

/// Plays schedules that check_schedules() has passed, in place if they can run in place. At a barrier a
/// rank's cell is the set of ranks that it knows to have come. Phases are left to find_phases().
Frames play(std::span<const schedule::Schedule> schedules);

}  // namespace kolo::draw
