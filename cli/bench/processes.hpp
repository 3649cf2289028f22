// Child processes of kolo bench: started with their output in memory, ended with certainty.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kolo::bench {

/// Starts a program (found in PATH) whose standard output and error go to `output`. It does not inherit what
/// launchers have told this process about its job, and ends (SIGTERM) when the calling thread does. -1 and
/// errno when it cannot be started.
pid_t start_process(const std::vector<std::string>& command, int output,
                    const std::vector<std::pair<std::string, std::string>>& environment);

/// Gives the processes `grace` to end by themselves, then SIGTERM, then SIGKILL; returns when all are gone.
void end_processes(std::vector<pid_t>& processes, std::chrono::milliseconds grace);

/// Where this program lies.
std::string program_path();
/// Where in PATH (or, with a slash, as it is) an executable lies; nothing when it does not.
std::optional<std::string> find_program(const std::string& name);

}  // namespace kolo::bench
