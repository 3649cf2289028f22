// core_loss(): how much of its core the calling thread loses to others.
#pragma once

#include <optional>

#include "base/deadline.hpp"

namespace kolo {

/// The share of the time, from 0 to 1, in which the calling thread could have run and did not, lately: some
/// tenths of a second, in all that it does. It is 0 until the thread has been watched for 64 ms, and where
/// the system does not tell (/proc/thread-self/schedstat). Costs a comparison, and some microseconds in each
/// 64 ms.
double core_loss(Clock::time_point now);

/// The rule of core_loss(), for any thread and clock.
class CoreLoss {
 public:
  /// Since the thread began, in ns.
  struct Times {
    double ran = 0;
    double waited = 0;  ///< for a core
  };

  bool is_due(Clock::time_point now) const;
  /// If it is due: the times at `now`, if the system tells.
  void note(Clock::time_point now, const std::optional<Times>& times);
  double share() const;

 private:
  Clock::time_point last_{};
  Times seen_{};    // at `last_`
  Times recent_{};  // halved in each window
};

}  // namespace kolo
