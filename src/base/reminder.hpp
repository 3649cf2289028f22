// Reminder: the times at which a long wait is logged.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/deadline.hpp"

namespace kolo {

/// Due 10 s after it was made, then at 20 s, 40 s and so on. A value; no thread-safety concerns.
class Reminder {
 public:
  bool is_due() {
    const auto now = Clock::now();
    const bool is_due = now >= begin_ + next_;
    while (now >= begin_ + next_) next_ *= 2;
    return is_due;
  }
  std::chrono::nanoseconds until_due() const {
    return std::max<std::chrono::nanoseconds>(begin_ + next_ - Clock::now(), std::chrono::nanoseconds(0));
  }
  double waited_seconds() const { return to_seconds(Clock::now() - begin_); }

 private:
  Clock::time_point begin_ = Clock::now();
  std::chrono::nanoseconds next_ = std::chrono::seconds(10);
};

}  // namespace kolo
