// The printer: a schedule as text, one line for each step.
#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// "step 3: recv_reduce from 2: output[1] = output[1] + incoming (completes) after 1, 2".
std::string to_string(const Schedule& schedule, std::uint32_t step);
/// All steps of one rank, below a heading.
std::string to_string(const Schedule& schedule);

}  // namespace kolo::schedule
