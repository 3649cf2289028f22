// The signals for a launcher, as a descriptor to poll.
#pragma once

#include <signal.h>

#include <string>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// From construction to destruction the thread's signals arrive at fd() instead of their handlers. The
/// destructor restores the caller's signal mask and handlers. Signals that stop a job stay ignored if they
/// were ignored before (nohup, "&" in a script); the ranks ignore them too.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  int fd() const { return fd_.get(); }
  /// The next signal that has arrived; 0 if there is none.
  int next();
  /// The signal mask before construction, for started programs.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t heard_;
  sigset_t before_;
  struct sigaction child_before_ {};
  UniqueFd fd_;
};

/// A name such as "SIGINT"; a number if the signal has no name.
std::string signal_name(int signal);

}  // namespace kolo::cli
