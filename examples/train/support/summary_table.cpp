#include "support/summary_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace support {

std::string grouped(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  const std::size_t whole = std::min(text.find('.'), text.size());
  for (std::size_t i = whole; i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

void SummaryTable::row(const std::string& name, const std::string& value, const std::string& remark) {
  fmt::format_to(std::back_inserter(text_), "  {:<34}{:>14}", name, value);
  text_ += remark.empty() ? "\n" : "   " + remark + '\n';
}

void SummaryTable::rows(const Communication& communication) {
  const double hidden = seconds(communication.statistics.hidden);
  const double exposed = seconds(communication.statistics.exposed);
  const double steps = static_cast<double>(std::max<std::int64_t>(communication.steps, 1));
  const double sent = communication.sent_bytes_per_step, by_ring = communication.ring_bytes_per_step();
  row("gradients", grouped(communication.gradient_bytes_per_step) + " B", "per rank and step");
  row("  sent", grouped(sent) + " B", "per rank and step, mean of the ranks");
  row("  2(N-1)/N of the gradients", grouped(by_ring) + " B",
      sent == by_ring ? "exactly what was sent" : "what a ring all-reduce of float32 sends");
  row("communication hidden", fmt::format("{:.2f} ms", 1e3 * hidden / steps), "per step, under backward");
  row("communication exposed", fmt::format("{:.2f} ms", 1e3 * exposed / steps),
      communication.seconds > 0
          ? fmt::format("per step: {:.1f} % of the step was waiting", 100 * exposed / communication.seconds)
          : std::string());
}

}  // namespace support
