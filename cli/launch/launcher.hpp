// The launcher: starts the ranks of a program, here or on several hosts, and supervises them.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "launch/hosts.hpp"
#include "launch/roster.hpp"

namespace CLI {
class App;
}

namespace kolo::cli {

/// How ranks are started on other hosts.
struct SshOptions {
  std::vector<HostSlots> hosts;  ///< none: all ranks run here
  std::string hosts_file;        ///< where they were read; an elastic job reads it again
  std::string hosts_command;     ///< or the shell command that has printed them
  std::string ssh = "ssh";       ///< command with options, separated by spaces
  std::string remote_kolo;       ///< this tool there; empty: the same path as here
  std::string
      store_address;  ///< address at which the hosts reach this one; empty: determined from the routes
  std::vector<std::string> variables;  ///< for all ranks, besides KOLO_*: NAME or NAME=value

  /// The command's options for all of these. They are parsed into this object, which must stay where it is; a
  /// list of hosts that makes no sense throws InvalidArgumentError.
  void add_to(CLI::App& command);
};

struct LaunchOptions {
  int ranks = 1;  ///< used if no hosts are named
  SshOptions remote;
  std::vector<std::string> command;  ///< program and arguments, looked up in PATH
  bool prefix_output = true;         ///< each line of a rank's output begins with "[rank] "
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  ///< between SIGTERM and SIGKILL
  bool keep_going = false;  ///< a rank that fails does not stop the other ranks: they shrink()
  ElasticOptions elastic = {};
  int quiet_code = 0;  ///< an exit code that is not reported, because the program has reported the reason
  std::vector<std::pair<std::string, std::string>> environment;  ///< set on top of the job's own variables
  int job_size = 0;    ///< not 0: the ranks are a part of a job over hosts, and its launcher at the other end
                       ///< of standard input and output gives the program; see records.hpp
  int first_rank = 0;  ///< of this part
};

struct LaunchOutcome {
  int failed_rank = -1;  ///< the rank that failed first; -1: all ranks succeeded, or some did with keep_going
  int exit_code = 0;     ///< of that rank, if it exited
  int signal = 0;        ///< signal that ended that rank, or that stopped the launcher
  bool interrupted = false;  ///< the launcher was told to stop (SIGINT, SIGTERM, SIGHUP)

  /// Exit status as in a shell: 0, the rank's exit code, or 128 + signal.
  int status() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// Serves the job's store (on loopback, or at an address that the hosts reach) and starts the ranks with
/// torchrun's variables set. Forwards their output line by line, and passes on SIGINT, SIGTERM, SIGHUP,
/// SIGUSR1 and SIGUSR2. When one rank fails, the other ranks have a second to report what they lost. Then it
/// stops them and all processes that they started (SIGTERM, after the grace SIGKILL), unless keep_going is
/// set. When it returns, no process of the job is left. When this process is killed, all processes of the job
/// end too, on other hosts as soon as they notice. A program that cannot be started, a host that cannot be
/// reached, or a store that cannot be served is reported on standard error: exit_code 127.
///
/// Call it from the main thread, without other child processes: it treats every child of this process as one
/// of the job. Throws kolo::Error when the system has no more processes.
LaunchOutcome launch_ranks(const LaunchOptions& options);

}  // namespace kolo::cli
