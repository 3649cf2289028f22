// ServiceThread: a thread that the library runs for its own work.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/home_process.hpp"

namespace kolo {

/// Blocks signals, so that the program's threads get them; except SIGPROF and the signals that a thread
/// causes itself. In a forked child there is only a copy of the object, whose destructor does not wait.
class ServiceThread {
 public:
  ServiceThread() = default;
  /// Throws SystemError if the system has no more threads.
  explicit ServiceThread(std::function<void()> run);
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;
  ServiceThread(ServiceThread&&) = default;
  ServiceThread& operator=(ServiceThread&&) = default;
  /// Call join() or detach() first.
  ~ServiceThread();

  /// True if this process started the thread and has not joined it.
  bool is_here() const noexcept;
  /// Waits for the thread to end, if is_here().
  void join();
  /// Lets the thread run on without this object, if is_here().
  void detach();

 private:
  std::unique_ptr<std::thread> thread_;
  HomeProcess home_;
};

}  // namespace kolo
