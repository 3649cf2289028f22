#include "forks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

int limit_main(int argc, char** argv, const char* name,
               const std::function<int(const char* socket, int size, std::span<char* const> more)>& run) {
  if (argc < 3) {
    std::fprintf(stderr, "kolo bench --against starts this program\n");
    return 2;
  }
  try {
    return run(argv[1], std::atoi(argv[2]), std::span(argv, static_cast<std::size_t>(argc)).subspan(3));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace kolo::bench
