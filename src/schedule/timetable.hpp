// Timetable: the schedules of all ranks, in steps in which each rank sends and receives at most one message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/message_graph.hpp"

namespace kolo::schedule {

/// Counts steps as the literature does: every message takes one step, and in a step each rank sends at most
/// one and receives at most one (the full-duplex one-port model: Chan, Heimlich, Purkayastha, van de Geijn:
/// Collective communication: theory, practice, and experience, CCPE 19 (2007), section 2). Local work takes
/// no time. If more messages are ready than may go, the one with the longest chain of messages behind it goes
/// first. Among equals, the one that comes first in the schedules of its two sides goes first. A value.
class Timetable {
 public:
  Timetable(std::span<const Schedule> schedules, const MessageGraph& graph);

  std::uint32_t steps() const { return steps_; }
  /// The step in which an event of the graph happens. Messages: 1, 2, ... Local work: the step that it waited
  /// for, 0 if none.
  std::uint32_t step_of(std::size_t event) const { return step_of_[event]; }

 private:
  std::uint32_t steps_ = 0;
  std::vector<std::uint32_t> step_of_;
};

}  // namespace kolo::schedule
