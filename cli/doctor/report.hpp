// What kolo doctor prints.
#pragma once

#include <string>
#include <vector>

#include "doctor/examination.hpp"
#include "doctor/findings.hpp"

namespace kolo::doctor {

/// Human-readable: hosts, which hosts reach each other, pairs, findings. Ends with a newline. Fits a terminal
/// if names are short; with all columns if `wide`.
std::string report_text(const Examination& examination, const std::vector<Finding>& findings, bool wide);
/// The report as one JSON object in one line; docs/running.md lists its fields.
std::string report_json(const Examination& examination, const std::vector<Finding>& findings);

}  // namespace kolo::doctor
