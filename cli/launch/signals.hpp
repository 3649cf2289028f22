// The signals for a launcher, as a descriptor to poll.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// From construction to destruction the thread's signals arrive at fd() instead of their handlers. The
/// destructor restores the caller's signal mask and handlers. Signals that stop a job stay ignored if they
/// were ignored before (nohup, "&" in a script); the ranks ignore them too.
class Signals {
 public:
  Signals() {
    sigset_t heard;
    sigemptyset(&heard);
    for (const int signal :
         {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP, SIGWINCH}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      const bool stops = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGTSTP;
      if (!stops || action.sa_handler != SIG_IGN) sigaddset(&heard, signal);
    }
    pthread_sigmask(SIG_BLOCK, &heard, &before_);
    // If SIGCHLD is ignored, children are reaped without an exit status.
    struct sigaction child {};
    child.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &child, &child_before_);
    fd_ = UniqueFd(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    while (next() != 0) {
    }
    ::sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int fd() const { return fd_.get(); }
  /// The next signal that has arrived; 0 if there is none.
  int next() {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }
  /// The signal mask before construction, for started programs.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
  struct sigaction child_before_ {};
  UniqueFd fd_;
};

}  // namespace kolo::cli
