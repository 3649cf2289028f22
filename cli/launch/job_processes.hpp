// The processes of a job, and the keeper that ends them when the launcher is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::cli {

/// Living processes of this host that carry `mark` ("NAME=value") in the environment they were started with,
/// or whose parent is `parent` (0: any parent). Finds ranks and all processes that they started, unless a
/// process has neither.
std::vector<pid_t> job_processes(const std::string& mark, pid_t parent);

/// A child process (watchdog) that sleeps until the launcher ends. If the launcher ends without a farewell,
/// the keeper kills every process with the mark. It has a session of its own, so a terminal's Ctrl-C does not
/// reach it.
class Keeper {
 public:
  Keeper() = default;
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = default;
  ~Keeper();

  static Result<Keeper> start(const std::string& mark);
  pid_t pid() const { return pid_; }

 private:
  UniqueFd line_;  ///< the keeper reads the other end
  pid_t pid_ = -1;
};

}  // namespace kolo::cli
