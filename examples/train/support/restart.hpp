// Starts a rank again that was killed.
#pragma once

#include <optional>

namespace support {

/// Call it before anything has threads. The process becomes a parent, and the call returns nothing in its
/// child; if a signal ends the child, there is another child, `restarts` times at most. Returns in the
/// parent, with the exit code that the last child has, or 128 + its signal. Without restarts there is no
/// child.
std::optional<int> run_again_if_killed(int restarts);

}  // namespace support
