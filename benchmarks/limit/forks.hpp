// Ranks as forks of one program.
#pragma once

#include <functional>

namespace kolo::bench {

/// Runs each rank in a fork of its own, which ends with this process. Returns the exit code: 1 as soon as one
/// of them fails. Throws std::runtime_error if a fork fails.
int fork_ranks(int size, const std::function<int(int rank)>& run);

}  // namespace kolo::bench
