#include "support/progress_line.hpp"

#include <unistd.h>

#include <cstdio>

namespace support {
namespace {

constexpr auto kBetweenLines = std::chrono::milliseconds(1000);
constexpr auto kBetweenRewrites = std::chrono::milliseconds(100);

}  // namespace

ProgressLine::ProgressLine(const std::string& style) : style_(Style::none) {
  if (style == "rewrite" || (style == "auto" && isatty(STDOUT_FILENO) == 1)) {
    style_ = Style::rewrite;
  } else if (style == "lines" || style == "auto") {
    style_ = Style::lines;
  }
}

void ProgressLine::show(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (style_ == Style::none || now < next_) return;
  next_ = now + (style_ == Style::rewrite ? kBetweenRewrites : kBetweenLines);
  std::printf("%s%s%s", style_ == Style::rewrite ? "\r" : "", text.c_str(),
              style_ == Style::rewrite ? "\033[K" : "\n");
  std::fflush(stdout);
  open_ = style_ == Style::rewrite;
}

void ProgressLine::note(const std::string& text) {
  if (open_) std::fputs("\r\033[K", stdout);
  open_ = false;
  std::puts(text.c_str());
  std::fflush(stdout);
}

}  // namespace support
