#include "bench/progress.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "text/columns.hpp"

namespace kolo::bench {

std::string Part::to_text() const {
  return fmt::format("{}/{}/{:.1f}", number, count, seconds);
}

Part Part::parse(const std::string& text) {
  Part part;
  const bool is_good =
      std::sscanf(text.c_str(), "%d/%d/%lf", &part.number, &part.count, &part.seconds) == 3 &&
      part.number >= 0 && part.number < part.count && part.seconds >= 0;
  return is_good ? part : Part{};
}

std::string time_left(double fraction, double seconds) {
  constexpr double kTooLittle = 0.01;
  if (fraction < kTooLittle) return "";
  const double left = seconds * (1 - fraction) / fraction;
  const std::string time = left < 90     ? fmt::format("{:.0f} s", left)
                           : left < 5400 ? fmt::format("{:.0f} min", left / 60)
                                         : fmt::format("{:.1f} h", left / 3600);
  return fmt::format("{:.0f} %, {} left", 100 * fraction, time);
}

void Progress::show(const std::string& what, double fraction) {
  if (!wanted_) return;
  const std::chrono::duration<double> here = std::chrono::steady_clock::now() - begin_;
  const std::string left = time_left((part_.number + fraction) / part_.count, part_.seconds + here.count());
  std::string line = "  " + (left.empty() ? "" : left + "; ");
  if (part_.count > 1) line += fmt::format("part {} of {}: ", part_.number + 1, part_.count);
  write(cli::shortened(line + what, cli::kTerminalWidth - 1));
}

void Progress::write(const std::string& line) {
  if (wanted_) fmt::print(stderr, "\r\x1b[K{}", line);
  if (wanted_) std::fflush(stderr);
}

}  // namespace kolo::bench
