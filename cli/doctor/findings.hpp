// What kolo doctor makes of the facts: each thing that is wrong, with what to do about it.
#pragma once

#include <string>
#include <vector>

#include "doctor/examination.hpp"

namespace kolo::doctor {

struct Finding {
  bool problem = false;  ///< a job will fail, or not be safe; else it works, but worse than it could
  std::string what;
  std::string fix;
};

/// Problems first. Pure.
std::vector<Finding> judge(const Examination& examination);

}  // namespace kolo::doctor
