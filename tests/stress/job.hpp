// Job: an elastic job whose processes are killed, stopped and cut off, and to which others come, at random.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stress/plan.hpp"

namespace kolo::stress {

enum class Event {
  kill,           ///< any process; the one that serves the store, too
  kill_first,     ///< rank 0
  kill_two,       ///< a moment apart
  kill_returned,  ///< one, as soon as another one has returned from regroup() or join() because a newcomer
                  ///< came
  join,           ///< one or two newcomers
  join_and_kill,  ///< a newcomer comes while one is killed
  kill_newcomer,  ///< at any moment after its start
  refuse,         ///< a newcomer with another program, or one that is there already
  pause,          ///< stopped for less than a heartbeat
  stop,           ///< stopped for longer, and then goes on, or is killed
  cut,            ///< one connection of the present group
};
inline constexpr int kEvents = 11;
const char* name_of(Event event);

struct JobLimits {
  Limits calls;
  double heartbeat = 0;  ///< seconds
  double patience = 0;   ///< seconds until all that live must be together
};

struct JobOutcome {
  std::vector<std::string> faults;  ///< what must never happen, in words
  std::uint64_t events = 0;
  std::uint64_t sums = 0;
  /// By event, in seconds: until all that live had sums together.
  std::array<std::vector<double>, kEvents> times;
  int left_out = 0;      ///< times that a group went on without a process that lived
  int joined_again = 0;  ///< times that the group of a newcomer did not come about
};

JobOutcome run_job(std::uint64_t seed, std::uint64_t events, const JobLimits& limits);

}  // namespace kolo::stress
