#include "fashion_mnist/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace fashion_mnist {
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

void ProgressLine::show(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (style_ == Style::none || now < next_) return;
  next_ = now + (style_ == Style::rewrite ? kBetweenRewrites : kBetweenLines);
  std::printf("%sepoch %d/%d  step %4lld/%lld  loss %.4f  %6.0f images/s  waiting %4.1f %%%s",
              style_ == Style::rewrite ? "\r" : "", progress.epoch, progress.epochs,
              static_cast<long long>(progress.step), static_cast<long long>(progress.steps), progress.loss,
              progress.images_per_second, 100 * progress.waiting, style_ == Style::rewrite ? "\033[K" : "\n");
  std::fflush(stdout);
  open_ = style_ == Style::rewrite;
}

void ProgressLine::note(const std::string& text) {
  if (open_) std::fputs("\r\033[K", stdout);
  open_ = false;
  std::puts(text.c_str());
  std::fflush(stdout);
}

}  // namespace fashion_mnist
