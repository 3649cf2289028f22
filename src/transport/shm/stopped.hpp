// StoppedProcesses: whether processes of this host are stopped, by a signal or a debugger.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "base/deadline.hpp"

namespace kolo::shm {

/// Where ranks connect they have no engine yet that asks for a sign of life. A slow rank may take its time
/// there; a stopped one is lost after a heartbeat, as it is later on. Used by one thread.
class StoppedProcesses {
 public:
  /// A zero heartbeat: no process is ever lost.
  explicit StoppedProcesses(std::chrono::nanoseconds heartbeat) : heartbeat_(heartbeat) {}

  /// Not empty once all looks at the process have found it stopped, for a heartbeat. To be called all the
  /// time that the process is waited for: longer pauses, in which this process may have been stopped too, do
  /// not count. Empty for a process that this one cannot see.
  std::string why_lost(pid_t process);

 private:
  struct Seen {
    Clock::time_point looked{};
    std::chrono::nanoseconds stopped_for{};
  };

  const std::chrono::nanoseconds heartbeat_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace kolo::shm
