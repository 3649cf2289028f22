#include "bench/neighbours.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace kolo::bench {
namespace {

constexpr long kBurstNs = 5'000'000;

long elapsed_ns(const timespec& since) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - since.tv_sec) * 1'000'000'000 + (now.tv_nsec - since.tv_nsec);
}

/// In a child of a program that may have threads: only functions that are safe after fork().
[[noreturn]] void be_busy(bool in_bursts, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  for (;;) {
    timespec begin{};
    ::clock_gettime(CLOCK_MONOTONIC, &begin);
    while (elapsed_ns(begin) < kBurstNs) {
    }
    const timespec pause{0, kBurstNs};
    if (in_bursts) ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

Neighbours::Neighbours(int count, bool in_bursts) {
  const pid_t parent = ::getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t process = ::fork();
    if (process == 0) be_busy(in_bursts, parent);
    if (process < 0) {
      const std::error_code error(errno, std::generic_category());
      stop();
      throw std::system_error(error, "no process for a neighbour");
    }
    processes_.push_back(process);
  }
}

Neighbours::~Neighbours() {
  stop();
}

void Neighbours::stop() {
  for (const pid_t process : processes_) ::kill(process, SIGKILL);
  for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
}

}  // namespace kolo::bench
