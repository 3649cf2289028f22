// The agent: runs the launcher's ranks on another host. See frames.hpp for the protocol.
#pragma once

namespace kolo::cli {

/// Runs this host's ranks of the job that comes on standard input, and reports their output and ends on
/// standard output. If the launcher disappears or is silent for 30 s, the agent stops the ranks. Returns the
/// exit code.
int run_agent();

}  // namespace kolo::cli
