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

constexpr long kNsPerSecond = 1'000'000'000;

long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

/// In a child of a program that may have threads: only functions that are safe after fork().
[[noreturn]] void be_busy(const Neighbourhood& wanted, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  const auto [busy_us, every_us] = wanted.blip_us;
  for (;;) {
    const long begin = now_ns(), next = begin + every_us * 1000L;
    while (now_ns() < begin + busy_us * 1000L) {
    }
    const timespec wake{next / kNsPerSecond, next % kNsPerSecond};
    if (every_us > 0) ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
  }
}

}  // namespace

Neighbours::Neighbours(const Neighbourhood& wanted) {
  const pid_t parent = ::getpid();
  for (int i = 0; i < wanted.count; ++i) {
    const pid_t process = ::fork();
    if (process == 0) be_busy(wanted, parent);
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
