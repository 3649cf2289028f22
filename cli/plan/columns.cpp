#include "plan/columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::plan {

TimeUnit unit_for(double shortest) {
  if (shortest >= 1) return {"s", 1};
  if (shortest >= 1e-3) return {"ms", 1e-3};
  return {"us", 1e-6};
}

std::string format_time(double seconds, const TimeUnit& unit) {
  const double value = seconds / unit.seconds;
  const int decimals = value < 100 ? 2 : value < 10'000 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string in_columns(const std::vector<Cells>& lines, std::size_t numbers) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Cells& line : lines) {
    for (std::size_t column = 0; column < line.size(); ++column)
      widths[column] = std::max(widths[column], line[column].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    text += fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t column = 1; column < line.size(); ++column) {
      text +=
          column <= numbers ? fmt::format("{:>{}}", line[column], widths[column] + 2) : "  " + line[column];
    }
    text += "\n";
  }
  return text;
}

}  // namespace kolo::plan
