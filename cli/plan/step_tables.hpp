// The tables of `kolo plan step`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/step.hpp"

namespace kolo::plan {

struct PricedRow {
  Communication communication;
  bool is_chosen = false;  ///< a call would run it
};

/// The job, its communication, and its steps without and with overlap, as human-readable lines. All times are
/// in one unit, and columns are as wide as their widest cell. Columns are left out until lines have at most
/// `width` characters.
std::string step_tables(const TrainingJob& job, const std::vector<PricedRow>& rows, std::size_t width);

}  // namespace kolo::plan
