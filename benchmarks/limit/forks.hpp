// The frame of a limit's program: kolo bench starts it, and its ranks are its forks.
#pragma once

#include <functional>
#include <span>

namespace kolo::bench {

/// Runs each rank in a fork of its own; what ends this process ends them too. Returns the exit code: 1 as
/// soon as one of them fails. Throws std::runtime_error where there can be no more processes.
int fork_ranks(int size, const std::function<int(int rank)>& run);

/// main() of such a program: `run` gets the socket of kolo bench, the number of ranks and the arguments that
/// follow, and returns the exit code. `name`: for messages.
int limit_main(int argc, char** argv, const char* name,
               const std::function<int(const char* socket, int size, std::span<char* const> more)>& run);

}  // namespace kolo::bench
