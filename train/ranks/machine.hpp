// Whether the ranks' machines compute alike.
#pragma once

#include <string>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// What decides how libtorch rounds on this rank, a line each: its version and build, the instruction set
/// that it uses, and the number of threads.
std::string machine();

/// Collective: compares the ranks' machine(). If they differ, rank 0 warns, or with `require_equal` all ranks
/// throw MismatchError; both name the rank that differs from most.
void compare_machines(Communicator& communicator, bool require_equal);

}  // namespace kolo::train
