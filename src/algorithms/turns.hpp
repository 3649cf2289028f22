// Turns: the order in which a rank sends its messages.
#pragma once

#include "algorithms/algorithm.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

/// Sends one message after the other, if the ranks are on several hosts. Messages that leave at once share
/// the links of their hosts to the network: the first one, for which its receiver waits, comes as late as the
/// last. On one host messages share no link, and each leaves when its data is there.
class Turns {
 public:
  /// The builder outlives the Turns.
  Turns(schedule::ScheduleBuilder& builder, const ScheduleSpec& spec) : Turns(builder, !spec.hosts.empty()) {}
  /// One after the other also on one host.
  static Turns always(schedule::ScheduleBuilder& builder) { return {builder, true}; }

  /// As ScheduleBuilder::send().
  void send(int peer, schedule::ChunkRange from) {
    const auto sent = builder_.send(peer, from, last_);
    if (takes_turns_) last_ = {sent};
  }

 private:
  Turns(schedule::ScheduleBuilder& builder, bool takes_turns)
      : builder_(builder), takes_turns_(takes_turns) {}

  schedule::ScheduleBuilder& builder_;
  bool takes_turns_;
  schedule::ScheduleBuilder::StepIds last_;
};

}  // namespace kolo::algorithms
