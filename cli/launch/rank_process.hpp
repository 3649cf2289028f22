// One rank as a process: how it is started and what comes out of it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::cli {

/// What is the same for all ranks.
struct Program {
  std::string path;                    ///< of the executable
  std::vector<std::string> arguments;  ///< with the program's name in front
  sigset_t signals;                    ///< those that the program starts with blocked
  bool input = false;                  ///< its standard input is a pipe from us; otherwise it is empty
};

/// Where `name` lies: as it is with a slash in it, else the first executable in PATH. The error says what is
/// wrong.
Result<std::string> find_program(const std::string& name);

struct RankProcess {
  pid_t pid = -1;
  UniqueFd in;   ///< what we write there is its standard input, where the program wants one
  UniqueFd out;  ///< its standard output, to be read without blocking
  UniqueFd err;
};

/// Starts it in a process group of its own; it is killed when the calling thread ends. Returns once the
/// program runs, or with the reason why it does not.
Result<RankProcess> start_rank(const Program& program, const std::vector<std::string>& environment);

}  // namespace kolo::cli
