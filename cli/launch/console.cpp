#include "launch/console.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace kolo::cli {
namespace {

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// "[3] ", in a colour of the rank's own on a terminal.
std::string prefix_for(int rank, const Sink& sink) {
  constexpr std::array kColors = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  const std::string text = fmt::format("[{}] ", rank);
  if (!sink.colored()) return text;
  return fmt::format("\033[{}m{}\033[0m", kColors[static_cast<std::size_t>(rank) % kColors.size()], text);
}

}  // namespace

Console::Console(int ranks, bool prefix)
    : out_(STDOUT_FILENO), err_(STDERR_FILENO), one_sink_(same_file(STDOUT_FILENO, STDERR_FILENO)) {
  for (int r = 0; r < ranks; ++r) {
    for (Sink* sink : {&out_, &err()}) lines_.emplace_back(*sink, prefix ? prefix_for(r, *sink) : "");
  }
}

void Console::take(int rank, Stream stream, std::string_view bytes) {
  LineCutter& lines = lines_[static_cast<std::size_t>(rank) * 2 + (stream == Stream::out ? 0 : 1)];
  bytes.empty() ? lines.finish() : lines.feed(bytes);
}

void Console::watch(std::vector<pollfd>& entries) const {
  for (const Sink* sink : {&out_, &err_}) {
    if (sink->pending()) entries.push_back({sink->fd(), POLLOUT, 0});
  }
}

int Console::drain() {
  for (Sink* sink : {&out_, &err_}) {
    const int error = sink->drain();
    if (error == 0) continue;
    sink->discard();
    if (error_ == 0) error_ = error;
  }
  return error_;
}

void Console::discard() {
  out_.discard();
  err_.discard();
}

bool Console::finish() {
  out_.end_update();
  err_.end_update();
  drain();
  return !out_.pending() && !err_.pending();
}

}  // namespace kolo::cli
