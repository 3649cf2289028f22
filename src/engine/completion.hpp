// Completion: wakes a thread that waits for the first of several operations, whichever engines run them.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/deadline.hpp"

namespace kolo::engine {

/// Set once. Thread-safe.
class Completion {
 public:
  void signal() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  /// Returns at the signal, or at the deadline, or earlier.
  void wait(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    const auto left = std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::seconds(1));
    changed_.wait_for(lock, left, [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

}  // namespace kolo::engine
