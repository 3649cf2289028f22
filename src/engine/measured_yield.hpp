// MeasuredYield: notices that other programs want this rank's core.
#pragma once

#include <chrono>
#include <thread>

#include "base/deadline.hpp"

namespace kolo::engine {

/// Gives the core to the threads that wait for it, and measures for how long. Another program keeps the core
/// for a whole time slice, up to 4 ms under Linux, so yields are best left out for a while after that.
class MeasuredYield {
 public:
  bool is_costly(Clock::time_point now) const { return now < costly_until_; }

  void operator()() {
    const auto begin = Clock::now();
    std::this_thread::yield();
    const auto end = Clock::now();
    if (end - begin > kLong) costly_until_ = end + kMemory;
  }

 private:
  /// A peer that shares this core gives it back sooner.
  static constexpr std::chrono::microseconds kLong{50};
  static constexpr std::chrono::milliseconds kMemory{100};

  Clock::time_point costly_until_{};
};

}  // namespace kolo::engine
