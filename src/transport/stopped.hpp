// StoppedProcesses: whether processes of this host are stopped, by a signal or a debugger.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "base/deadline.hpp"

namespace kolo::transport {

/// While ranks connect they have no engine yet, so no heartbeats are sent. A slow rank may take its time
/// then; a stopped one is lost after a heartbeat, as it is later. Used by one thread.
class StoppedProcesses {
 public:
  /// With a zero heartbeat no process is ever lost.
  explicit StoppedProcesses(std::chrono::nanoseconds heartbeat) : heartbeat_(heartbeat) {}

  /// Not empty after all checks have found the process stopped for a heartbeat. Call it repeatedly while
  /// waiting for the process. Longer gaps between two calls do not count, as this process may have been
  /// stopped too. Empty for a process that this one cannot see.
  std::string why_lost(pid_t process);

 private:
  struct Seen {
    Clock::time_point looked{};
    std::chrono::nanoseconds stopped_for{};
  };

  const std::chrono::nanoseconds heartbeat_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace kolo::transport
