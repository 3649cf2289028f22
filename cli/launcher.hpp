// The launcher: starts the ranks of a program, here or on several hosts, and answers for them.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "launch/hosts.hpp"

namespace kolo::cli {

/// How ranks are started on other hosts.
struct SshOptions {
  std::vector<HostSlots> hosts;        ///< none: all ranks run here
  std::string ssh = "ssh";             ///< command with options, separated by spaces
  std::string remote_kolo;             ///< this tool there; empty: the same path as here
  std::string store_address;           ///< where the hosts reach this one; empty: found out
  std::vector<std::string> variables;  ///< for the ranks, besides KOLO_*: NAME or NAME=value
};

struct LaunchOptions {
  int ranks = 1;  ///< where no hosts are named
  SshOptions remote;
  std::vector<std::string> command;  ///< program and arguments, looked up in PATH
  bool prefix_output = true;         ///< each line of a rank's output begins with "[rank] "
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  ///< between SIGTERM and SIGKILL
  bool keep_going = false;  ///< a rank that fails does not stop the others: they shrink()
  int quiet_code = 0;       ///< an exit code that is no news to the user, so that it is not reported
  std::vector<std::pair<std::string, std::string>> environment;  ///< set on top of the job's own variables
};

struct LaunchOutcome {
  int failed_rank = -1;  ///< the rank that failed first; -1: all succeeded, or, with keep_going, some did
  int exit_code = 0;     ///< of that rank, when it exited
  int signal = 0;        ///< of that rank, when a signal ended it, or the signal that stopped the launcher
  bool interrupted = false;  ///< the launcher was told to stop (SIGINT, SIGTERM, SIGHUP)

  /// What a shell would say: 0, the rank's exit code, or 128 + signal.
  int status() const;
};

/// Serves the job's store (on loopback, or where the hosts reach it), starts the ranks with torchrun's
/// variables set, forwards their output line by line, passes on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2,
/// and, as soon as one rank fails, stops the others (SIGTERM, after the grace SIGKILL) together with whatever
/// they started, unless they are to keep going. When it returns, no process of the job is left; when this
/// process is killed, none is left either, on other hosts as soon as they notice. A program that cannot be
/// started, or a host that cannot be reached, is reported on standard error: exit_code 127.
///
/// Call it from the main thread, with no other child processes running: it takes every child of this process
/// for the job's. Throws kolo::Error when the store cannot be served or the system has no more processes.
LaunchOutcome launch_ranks(const LaunchOptions& options);

}  // namespace kolo::cli
