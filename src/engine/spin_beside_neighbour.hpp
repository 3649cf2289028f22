// SpinBesideNeighbour: how long a rank spins where another program wants its core.
#pragma once

#include <chrono>

#include "base/deadline.hpp"

namespace kolo::engine {

/// A rank that sleeps leaves a peer its core, and is woken ahead of a program that computes. A rank that
/// never sleeps loses the core for a time slice, however short its waits are. Only a short call takes less
/// time than a wake-up; ranks that spin for less than that wake each other in each call. A short call among
/// long ones, such as a barrier before each, gains little; spinning for it would use up what sleeping for the
/// others has saved.
class SpinBesideNeighbour {
 public:
  /// For a call that a rank begins to wait for. `is_long`: it takes longer than a wake-up.
  Clock::duration longest(Clock::time_point now, bool is_long) {
    if (is_long) last_long_ = now;
    return now < last_long_ + kAmongLong ? Clock::duration::zero() : kShort;
  }

 private:
  static constexpr Clock::duration kShort = std::chrono::microseconds(50);
  static constexpr Clock::duration kAmongLong = std::chrono::milliseconds(10);

  Clock::time_point last_long_{};
};

}  // namespace kolo::engine
