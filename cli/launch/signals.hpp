// The signals that a launcher hears, as a descriptor to poll.
#pragma once

#include <signal.h>

#include <string>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// From construction to destruction the thread's signals arrive at fd() instead of acting; what the caller
/// had is put back afterwards. Those that stop a job stay ignored where they were (nohup, "&" in a script):
/// the ranks ignore them too.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  int fd() const { return fd_.get(); }
  /// The next one that has arrived; 0 when there is none.
  int next();
  /// What was blocked before, for programs that we start.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t heard_;
  sigset_t before_;
  struct sigaction child_before_ {};
  UniqueFd fd_;
};

/// "SIGINT" and the like; a number where it has no name.
std::string signal_name(int signal);

}  // namespace kolo::cli
