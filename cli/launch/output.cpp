#include "launch/output.hpp"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>

namespace kolo::cli {
namespace {

constexpr std::size_t kLongestLine = 1u << 20;

/// The text that a terminal shows of a line with carriage returns: the part after the last one, unless that
/// part is empty.
std::string_view visible(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const auto at = line.rfind('\r');
  return at == std::string_view::npos ? line : line.substr(at + 1);
}

}  // namespace

Sink::Sink(int fd)
    : fd_(fd),
      live_(::isatty(fd) == 1),
      colored_(live_ && !std::getenv("NO_COLOR")),
      // poll(2) guarantees room for PIPE_BUF bytes in a pipe, for fewer in a terminal.
      chunk_(live_ ? 256 : PIPE_BUF) {}

void Sink::begin_line(const void* writer) {
  if (in_update_) queue_.append("\r\033[K");
  if (in_line_ && in_line_ != writer) queue_.append("\n");
  in_update_ = false;
  in_line_ = nullptr;
}

void Sink::line(std::string_view prefix, std::string_view text, const void* writer) {
  begin_line(writer);
  queue_.append(prefix).append(text).append("\n");
}

void Sink::update(std::string_view prefix, std::string_view text) {
  begin_line(nullptr);
  queue_.append("\r").append(prefix).append(text).append("\033[K");
  in_update_ = true;
}

void Sink::fragment(std::string_view text, const void* writer) {
  begin_line(writer);
  queue_.append(text);
  in_line_ = writer;
}

void Sink::end_update() {
  if (in_update_) queue_.append("\n");
  in_update_ = false;
}

LineCutter::LineCutter(Sink& sink, std::string prefix) : sink_(&sink), prefix_(std::move(prefix)) {}

void LineCutter::feed(std::string_view bytes) {
  const bool raw = prefix_.empty();
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    partial_ += bytes.substr(0, end);
    sink_->line(prefix_, raw ? std::string_view(partial_) : visible(partial_), this);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  if (bytes.empty()) return;
  partial_ += bytes;
  if (sink_->live() || !raw) redraw();
  if (partial_.size() > kLongestLine) finish();
}

void LineCutter::redraw() {
  const auto last = partial_.rfind('\r');
  if (last == std::string::npos) return;
  const std::string_view shown = visible(partial_);
  if (sink_->live() && !shown.empty()) sink_->update(prefix_, shown);
  // Keep the current state with its carriage return, because that may be part of "\r\n".
  const bool ended = last + 1 == partial_.size();
  partial_ = std::string(shown) + (ended ? "\r" : "");
}

void LineCutter::finish() {
  if (partial_.empty()) return;
  if (prefix_.empty()) {
    sink_->fragment(partial_, this);
  } else {
    sink_->line(prefix_, visible(partial_));
  }
  partial_.clear();
}

}  // namespace kolo::cli
