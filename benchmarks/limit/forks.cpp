#include "forks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace kolo::bench {

int fork_ranks(int size, const std::function<int(int rank)>& run) {
  const pid_t parent = ::getpid();
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
    if (child > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(::getppid() == parent ? run(rank) : 1);
  }
  for (int status = 0; ::wait(&status) > 0;) {
    if (status != 0) return 1;
  }
  return 0;
}

}  // namespace kolo::bench
