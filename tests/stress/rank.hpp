// The life of one rank in a round.
#pragma once

#include <string>

#include "stress/control.hpp"
#include "stress/plan.hpp"

namespace kolo::stress {

/// In a process of its own, which it ends.
[[noreturn]] void be_rank(int rank, const Plan& plan, const Limits& limits, const std::string& store,
                          Control& control);

}  // namespace kolo::stress
