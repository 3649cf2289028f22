#include "support/restart.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace support {
namespace {

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
  }
  return status;
}

}  // namespace

std::optional<int> run_again_if_killed(int restarts) {
  if (restarts == 0) return {};
  for (int left = restarts;; --left) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);  // the parent has ended before that
      return {};
    }
    const int status = wait_for(child);
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    std::printf("process %d was ended by signal %d\n", static_cast<int>(child), WTERMSIG(status));
    std::fflush(stdout);
    if (left == 0) return 128 + WTERMSIG(status);
  }
}

}  // namespace support
