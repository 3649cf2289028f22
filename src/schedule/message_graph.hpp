// MessageGraph: the messages between ranks and the waits between steps, over the schedules of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// A step of a rank.
struct StepRef {
  std::uint32_t rank = 0;
  std::uint32_t step = 0;
};

/// Matches every send with its receive and orders all events so that each comes after those that it waits
/// for. A message is one event that starts when both its sides are ready. That is the strictest behaviour
/// that a transport may have, so what can be ordered here cannot deadlock on any transport.
class MessageGraph {
 public:
  /// An event is a local step, or a message, which has the name of its send.
  struct Event {
    StepRef step;
    StepRef receiver;  ///< of a message: its recv or recv_reduce
    bool is_message = false;
  };

  /// Peers and dependencies must be in bounds.
  static Result<MessageGraph> build(std::span<const Schedule> schedules);

  /// In an order in which they can happen.
  std::span<const Event> events() const { return events_; }
  /// The events that event `index` waits for, perhaps more than once; all precede it. First one for each
  /// dependency of its step, then one for each dependency of its receiver.
  std::span<const std::uint32_t> waits_of(std::size_t index) const {
    return {waits_.data() + first_wait_[index], first_wait_[index + 1] - first_wait_[index]};
  }
  std::uint64_t messages() const { return messages_; }
  /// Messages in the longest chain of waits.
  std::uint64_t rounds() const { return rounds_; }

 private:
  std::vector<Event> events_;
  std::vector<std::size_t> first_wait_{0};  // first index in `waits_` for each event; one more at the end
  std::vector<std::uint32_t> waits_;
  std::uint64_t messages_ = 0;
  std::uint64_t rounds_ = 0;
};

}  // namespace kolo::schedule
