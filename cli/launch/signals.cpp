#include "launch/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

namespace kolo::cli {

Signals::Signals() {
  sigemptyset(&heard_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    const bool stops = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGTSTP;
    if (stops && action.sa_handler == SIG_IGN) continue;
    sigaddset(&heard_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &heard_, &before_);
  // If SIGCHLD is ignored, children are reaped without an exit status.
  struct sigaction child {};
  child.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &child, &child_before_);
  fd_ = UniqueFd(::signalfd(-1, &heard_, SFD_CLOEXEC | SFD_NONBLOCK));
}

Signals::~Signals() {
  while (next() != 0) {
  }
  ::sigaction(SIGCHLD, &child_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::next() {
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation ? std::string("SIG") + abbreviation : "signal " + std::to_string(signal);
}

}  // namespace kolo::cli
