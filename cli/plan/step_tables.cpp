#include <fmt/format.h>

#include <algorithm>

#include "plan/quantities.hpp"
#include "plan/step.hpp"
#include "text/columns.hpp"

namespace kolo::plan {
namespace {

std::string format_percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string marked(const PricedRow& row) {
  return (row.is_chosen ? "> " : "  ") + row.communication.algorithm;
}

std::string communication_table(const std::vector<PricedRow>& rows, const TimeUnit& unit, std::size_t width) {
  std::vector<cli::Cells> lines;
  for (const PricedRow& row : rows) {
    const Communication& priced = row.communication;
    cli::Cells& line = lines.emplace_back(cli::Cells{marked(row)});
    for (const double seconds : {priced.in, priced.out, priced.both_at_once(), priced.in_turns(),
                                 priced.expected, priced.least, priced.most})
      line.push_back(format_time(seconds, unit));
  }
  return cli::table({{"  algorithm", "", 0, true},
                     {"in"},
                     {"out"},
                     {"overlapped"},
                     {"in turns"},
                     {"expected"},
                     {"from", "", 0, false, 1},
                     {"to", "", 0, false, 1}},
                    lines, width);
}

std::string step_table(const TrainingJob& job, const std::vector<PricedRow>& rows, const TimeUnit& unit,
                       std::size_t width, StepTime (*time)(const TrainingJob&, const Communication&)) {
  std::vector<cli::Cells> lines;
  for (const PricedRow& row : rows) {
    const StepTime step = time(job, row.communication);
    lines.push_back({marked(row), format_time(step.seconds, unit), format_percent(step.communication),
                     format_percent(step.efficiency), fmt::format("{:.2f}", step.efficiency * job.workers),
                     step.bottleneck});
  }
  return cli::table({{"  algorithm", "", 0, true},
                     {"step"},
                     {"exposed"},
                     {"efficiency", "", 0, false, 2},
                     {"speedup", "", 0, false, 1},
                     {"bottleneck", "", 0, true}},
                    lines, width);
}

}  // namespace

std::string step_tables(const TrainingJob& job, const std::vector<PricedRow>& rows, std::size_t width) {
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
  text += fmt::format("#\n# Communication, {}\n{}", unit.name, communication_table(rows, unit, width));
  text += fmt::format("#\n# Step without overlap, {}: compute + communication\n{}", unit.name,
                      step_table(job, rows, unit, width, without_overlap));
  text += fmt::format(
      "#\n# Step with overlap, {}: forward + max(backward, first bucket +\n# communication) + optimizer\n{}",
      unit.name, step_table(job, rows, unit, width, with_overlap));
  return text;
}

}  // namespace kolo::plan
