// ServiceThread: a thread that the library runs for itself.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/home_process.hpp"

namespace kolo {

/// Takes none of the program's signals, which are for the program's threads (but those that say what a thread
/// itself has done, and SIGPROF). A fork has only a picture of it, which ends without waiting for anybody.
class ServiceThread {
 public:
  ServiceThread() = default;
  /// Throws SystemError where the system has no more threads.
  explicit ServiceThread(std::function<void()> run);
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;
  ServiceThread(ServiceThread&&) = default;
  ServiceThread& operator=(ServiceThread&&) = default;
  /// join() comes first.
  ~ServiceThread();

  /// Started by this process, and not joined: what the thread uses is this process's.
  bool is_here() const noexcept;
  /// Waits for its end, if it is here.
  void join();

 private:
  std::unique_ptr<std::thread> thread_;
  HomeProcess home_;
};

}  // namespace kolo
