// The form of the checker's errors.
#pragma once

#include <string>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// "all_reduce: rank 2, step 3: recv from 1: output[0] = incoming: <why>", with the step in the context.
Status refuse(const Schedule& schedule, std::uint32_t step, const std::string& why);
/// "all_reduce: rank 2: <why>", if no single step is to blame.
Status refuse(const Schedule& schedule, const std::string& why);

}  // namespace kolo::schedule
