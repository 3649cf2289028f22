// Child processes of kolo bench: starts and ends them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace kolo::bench {

/// Starts a program (found in PATH) without the launcher's variables, with `variables` (NAME=value), and with
/// `output` for output and errors. It gets SIGTERM when the calling thread ends. Returns -1 and sets errno if
/// it cannot be started.
pid_t start_process(const std::vector<std::string>& command, int output,
                    const std::vector<std::string>& variables);

/// Waits `grace` for the processes, then sends SIGTERM, then SIGKILL. Returns when all have ended.
void end_processes(std::vector<pid_t>& processes, std::chrono::milliseconds grace);

/// The path of this program.
std::string program_path();

}  // namespace kolo::bench
