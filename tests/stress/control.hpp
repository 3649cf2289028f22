// Control: the memory through which a round and its ranks talk.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "stress/plan.hpp"

namespace kolo::stress {

enum class Phase : int {
  meeting,
  calling,
  waiting,  ///< has its error, or has finished its steps; its memory is painted
  ended,    ///< its memory is unchanged, or `fault` has the error
};

enum class Ending : int { finished, peer_lost, timeout, rendezvous, other };

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Written by the rank, read when its phase says so.
struct Report {
  static constexpr int kText = 480;

  std::atomic<Phase> phase;
  std::atomic<std::uint64_t> steps;
  Ending ending;
  int blamed;         ///< the rank of the world that the error names, or -1
  double at;          ///< when
  double went_on_at;  ///< Plan::shrinks: when those that are left had a sum again
  char error[kText];
  char fault[kText];  ///< what must never happen, or empty
};

/// All zero at the beginning of a round.
struct Control {
  std::atomic<int> finish;  ///< the ranks end together
  std::atomic<int> look;    ///< no process can write any more: the ranks check their memory and leave
  Report ranks[kMostRanks];
};

}  // namespace kolo::stress
