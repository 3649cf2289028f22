// One rank as a process: starts it, and holds its input and output.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::cli {

/// Settings that are the same for all ranks.
struct Program {
  std::string path;                    ///< of the executable
  std::vector<std::string> arguments;  ///< with the program's name in front
  sigset_t signals;                    ///< signals that are blocked when the program starts
  bool input = false;  ///< its standard input is a pipe from the launcher; otherwise it is empty
};

/// The path of program `name`: `name` itself if it contains a slash, else the first executable in PATH.
Result<std::string> find_program(const std::string& name);

struct RankProcess {
  pid_t pid = -1;
  UniqueFd in;   ///< write end of its standard input, if Program::input is set
  UniqueFd out;  ///< read end of its standard output, non-blocking
  UniqueFd err;
};

/// Starts it in a process group of its own; it is killed when the calling thread ends. Returns once the
/// program runs, or with the reason why it does not.
Result<RankProcess> start_rank(const Program& program, const std::vector<std::string>& environment);

}  // namespace kolo::cli
