// The findings of kolo doctor: each problem and warning, and how to fix it.
#pragma once

#include <string>
#include <vector>

#include "doctor/examination.hpp"

namespace kolo::doctor {

struct Finding {
  bool problem = false;  ///< true: a job will fail or be unsafe; false: a warning, the job works but is
                         ///< slower or harder to watch
  std::string what;
  std::string fix;
};

/// Problems first. Pure.
std::vector<Finding> judge(const Examination& examination);

}  // namespace kolo::doctor
