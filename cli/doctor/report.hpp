// What kolo doctor finds and prints: each problem and warning, and how to fix it.
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

/// Human-readable: hosts, which hosts reach each other, pairs, findings. Ends with a newline. Fits a terminal
/// if names are short; with all columns if `wide`.
std::string report_text(const Examination& examination, const std::vector<Finding>& findings, bool wide);
/// The report as one JSON object in one line; docs/running.md lists its fields.
std::string report_json(const Examination& examination, const std::vector<Finding>& findings);

}  // namespace kolo::doctor
