// MeasuredYield: notices that other programs want this rank's core.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/deadline.hpp"

namespace kolo::engine {

/// Gives the core to the threads that wait for it, and measures for how long. Another program keeps the core
/// for a whole time slice, up to 4 ms under Linux, so yields are best left out for a while after two such
/// yields: the longer, the longer the other program has been there. A single one may be a peer's work before
/// both have a core each, or a thread of the kernel. A peer gives the core back sooner. The turns of many
/// ranks on a core cannot be told from another program's: there nothing is measured.
class MeasuredYield {
 public:
  explicit MeasuredYield(int ranks_a_core)
      : long_(ranks_a_core == 1   ? kLong
              : ranks_a_core == 2 ? kLongBesideRank
                                  : Clock::duration::max()) {}

  bool is_costly(Clock::time_point now) const { return now < costly_until_; }

  void operator()() {
    if (long_ == Clock::duration::max()) return std::this_thread::yield();
    const auto begin = Clock::now();
    std::this_thread::yield();
    note(begin, Clock::now());
  }

  /// A yield took from `begin` to `end`.
  void note(Clock::time_point begin, Clock::time_point end) {
    if (end - begin <= long_) return;
    const bool is_single = begin >= costly_until_ + kShortestMemory;
    memory_ = is_single ? kNone : std::clamp(2 * memory_, kShortestMemory, kLongestMemory);
    costly_until_ = end + memory_;
  }

 private:
  static constexpr Clock::duration kLong = std::chrono::microseconds(50);
  static constexpr Clock::duration kLongBesideRank = std::chrono::milliseconds(1);
  static constexpr std::chrono::milliseconds kNone{0};
  static constexpr std::chrono::milliseconds kShortestMemory{100};
  static constexpr std::chrono::milliseconds kLongestMemory{1000};

  const Clock::duration long_;
  Clock::time_point costly_until_{};  // after a single long yield: its end
  std::chrono::milliseconds memory_{};
};

}  // namespace kolo::engine
