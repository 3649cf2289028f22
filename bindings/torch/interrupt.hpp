// What waits without Python: check_signals() lets Ctrl-C end it, WithoutLock lets other threads run Python
// meanwhile.
#pragma once

#include <chrono>

namespace kolo::pytorch {

/// The longest time for which a call waits without check_signals().
inline constexpr std::chrono::milliseconds kSignalInterval{200};

bool is_main_thread();

/// Runs Python's signal handlers if a signal is pending and this is the process's main thread. Throws what a
/// handler raises (KeyboardInterrupt). Takes Python's lock, which the caller must not hold.
void check_signals();

/// Gives up Python's lock, if this thread holds it, until the scope ends.
class WithoutLock {
 public:
  WithoutLock();
  ~WithoutLock();
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  void* const state_;
};

}  // namespace kolo::pytorch
