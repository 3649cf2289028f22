// Tables for people: columns as wide as their widest cell, times in one unit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo::plan {

using Cells = std::vector<std::string>;

struct TimeUnit {
  std::string_view name;
  double seconds;
};

/// The largest unit in which `shortest` is one or more; seconds at most, microseconds at least.
TimeUnit unit_for(double shortest);

/// Two decimals, or fewer for large numbers.
std::string format_time(double seconds, const TimeUnit& unit);

/// Lines of as many cells each. The first column is text, then come so many columns of numbers, which end at
/// the right, then text again.
std::string in_columns(const std::vector<Cells>& lines, std::size_t numbers);

}  // namespace kolo::plan
