// The processes of a job on this host: finds them, and ends them when the launcher is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// While it lives, orphans of the job become children of this process (subreaper), and a child process (the
/// watchdog) waits for the end of this process: if this process is killed, the watchdog kills the job.
class JobProcesses {
 public:
  /// Throws kolo::Error if the system has no more processes.
  JobProcesses();
  JobProcesses(const JobProcesses&) = delete;
  JobProcesses& operator=(const JobProcesses&) = delete;
  ~JobProcesses();

  /// The value of kolo_run in the environment of the ranks, and so of all processes that they start.
  const std::string& marks() const { return marks_; }
  /// The living processes that have the mark in their environment (without /proc this cannot be seen) or this
  /// process as their parent.
  std::vector<pid_t> living() const;

 private:
  const std::string mark_;
  const std::string marks_;  ///< with those of the jobs around this one
  UniqueFd line_;            ///< the watchdog reads the other end
  pid_t watchdog_ = -1;
  int subreaper_before_ = 0;
};

}  // namespace kolo::cli
