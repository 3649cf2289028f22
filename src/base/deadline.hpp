// Deadline: the time at which a wait must end with an error.
#pragma once

#include <algorithm>
#include <chrono>

namespace kolo {

using Clock = std::chrono::steady_clock;

inline double to_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A point in time that nested waits pass down, so that they share one time budget. A value; no thread-safety
/// concerns.
class Deadline {
 public:
  static Deadline after(std::chrono::nanoseconds timeout) {
    const auto now = Clock::now();
    const bool overflows = timeout > Clock::time_point::max() - now;
    return Deadline(overflows ? Clock::time_point::max() : now + timeout);
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  std::chrono::nanoseconds left() const { return std::max(std::chrono::nanoseconds(0), at_ - Clock::now()); }
  /// For poll(2) and epoll_wait(2): rounded up, at most `cap` milliseconds.
  int left_ms(int cap = 1000) const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
    return static_cast<int>(std::min<decltype(ms)>(ms, cap));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace kolo
