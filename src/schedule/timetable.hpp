// Timetable: the schedules of all ranks played in steps in which a rank sends and receives one message each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/message_graph.hpp"

namespace kolo {

/// The literature's way to count steps: all messages take one step, and in a step each rank sends at most one
/// and receives at most one (the full-duplex one-port model: Chan, Heimlich, Purkayastha, van de Geijn:
/// Collective communication: theory, practice, and experience, CCPE 19 (2007), section 2). Local work takes
/// no time. Where more messages are ready than may go, the one with the longest chain of messages behind it
/// goes first; of equals, the one that stands first in the schedules of its two sides. A value.
class Timetable {
 public:
  Timetable(std::span<const Schedule> schedules, const MessageGraph& graph);

  std::uint32_t steps() const { return steps_; }
  /// When an event of the graph has happened: messages in step 1, 2, ...; local work at the end of the step
  /// that it waited for, 0 where it waited for none.
  std::uint32_t step_of(std::size_t event) const { return step_of_[event]; }

 private:
  std::uint32_t steps_ = 0;
  std::vector<std::uint32_t> step_of_;
};

}  // namespace kolo
