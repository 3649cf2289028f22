#include "plan/step_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "plan/quantities.hpp"

namespace kolo::plan {
namespace {

using Cells = std::vector<std::string>;

struct TimeUnit {
  std::string_view name;
  double seconds;
};

/// The largest unit in which the shortest step is one or more; seconds at most, microseconds at least.
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

std::string format_percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

/// Lines of cells: numbers end at the right; the first column, and all others that are text, begin at the
/// left.
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

std::string marked(const PricedRow& row) {
  return (row.is_chosen ? "  > " : "    ") + row.communication.algorithm;
}

std::string communication_table(const std::vector<PricedRow>& rows, const TimeUnit& unit) {
  std::vector<Cells> lines{
      {"#   algorithm", "in", "out", "overlapped", "in turns", "expected", "from", "to"}};
  for (const PricedRow& row : rows) {
    const Communication& priced = row.communication;
    Cells& line = lines.emplace_back(Cells{marked(row)});
    for (const double seconds : {priced.in, priced.out, priced.both_at_once(), priced.in_turns(),
                                 priced.expected, priced.least, priced.most})
      line.push_back(format_time(seconds, unit));
  }
  return in_columns(lines, lines.front().size() - 1);
}

std::string step_table(const TrainingJob& job, const std::vector<PricedRow>& rows, const TimeUnit& unit,
                       StepTime (*time)(const TrainingJob&, const Communication&)) {
  std::vector<Cells> lines{{"#   algorithm", "step", "communication", "efficiency", "speedup", "bottleneck"}};
  for (const PricedRow& row : rows) {
    const StepTime step = time(job, row.communication);
    lines.push_back({marked(row), format_time(step.seconds, unit), format_percent(step.communication),
                     format_percent(step.efficiency), fmt::format("{:.2f}", step.efficiency * job.workers),
                     step.bottleneck});
  }
  return in_columns(lines, lines.front().size() - 2);
}

}  // namespace

std::string step_tables(const TrainingJob& job, const std::vector<PricedRow>& rows) {
  double shortest = job.compute + rows.front().communication.expected;
  for (const PricedRow& row : rows) shortest = std::min(shortest, job.compute + row.communication.expected);
  const TimeUnit unit = unit_for(shortest);
  std::string text = fmt::format("# A training step of {} workers, one on each host\n", job.workers);
  text += fmt::format("#   gradients  {} a worker ({} bytes)\n", format_bytes(static_cast<double>(job.bytes)),
                      with_separators(job.bytes));
  text += fmt::format("#   links      {} of payload each way ({}/s)\n", format_bits(job.bytes_per_second),
                      format_bytes(job.bytes_per_second));
  text += fmt::format("#   compute    {} a step, {} of it backward\n", format_duration(job.compute),
                      format_duration(job.backward));
  text += fmt::format("#\n# Communication, {}\n{}", unit.name, communication_table(rows, unit));
  text += fmt::format("#\n# Step without overlap, {}: compute + communication\n{}", unit.name,
                      step_table(job, rows, unit, without_overlap));
  text += fmt::format(
      "#\n# Step with overlap, {}: forward + max(backward, first bucket + communication) + optimizer\n{}",
      unit.name, step_table(job, rows, unit, with_overlap));
  return text;
}

}  // namespace kolo::plan
