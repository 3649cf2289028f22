// The agent: the launcher's hand on another host. See frames.hpp for what the two say.
#pragma once

namespace kolo::cli {

/// Runs this host's ranks of the job that comes on standard input, and tells on standard output what becomes
/// of them. When the launcher goes away, or is silent for 30 s, it stops them. The exit code.
int run_agent();

}  // namespace kolo::cli
