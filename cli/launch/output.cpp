#include "launch/output.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "kolo/trouble.hpp"

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

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// "[3] ", in a colour of the rank's own on a terminal.
std::string prefix_for(int rank, const Sink& sink) {
  constexpr std::array kColors = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  const std::string text = fmt::format("[{}] ", rank);
  if (!sink.live() || std::getenv("NO_COLOR")) return text;
  return fmt::format("\033[{}m{}\033[0m", kColors[static_cast<std::size_t>(rank) % kColors.size()], text);
}

}  // namespace

int ByteQueue::drain(int fd, std::size_t chunk) {
  while (pending()) {
    // Other processes may share the open file, so the descriptor stays blocking.
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) break;
    const ssize_t put = ::write(fd, bytes_.data() + written_, std::min(chunk, bytes_.size() - written_));
    if (put < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (put < 0) return errno;
    written_ += static_cast<std::size_t>(put);
  }
  if (!pending()) {
    clear();
  } else if (written_ > (1u << 18)) {
    bytes_.erase(0, written_);
    written_ = 0;
  }
  return 0;
}

Sink::Sink(int fd)
    : fd_(fd),
      live_(::isatty(fd) == 1),
      // poll(2) guarantees room for PIPE_BUF bytes in a pipe, for fewer in a terminal.
      chunk_(live_ ? 256 : PIPE_BUF) {}

void Sink::begin_line(const void* writer) {
  if (in_update_) append("\r\033[K");
  if (in_line_ && in_line_ != writer) append("\n");
  in_update_ = false;
  in_line_ = nullptr;
}

void Sink::line(std::string_view prefix, std::string_view text, const void* writer) {
  begin_line(writer);
  append(prefix).append(text).append("\n");
}

void Sink::update(std::string_view prefix, std::string_view text) {
  begin_line(nullptr);
  append("\r").append(prefix).append(text).append("\033[K");
  in_update_ = true;
}

void Sink::fragment(std::string_view text, const void* writer) {
  begin_line(writer);
  append(text);
  in_line_ = writer;
}

void Sink::end_update() {
  if (in_update_) append("\n");
  in_update_ = false;
}

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

Console::Console(bool prefix, bool records)
    : one_sink_(same_file(STDOUT_FILENO, STDERR_FILENO)), records_(records), prefix_(prefix) {}

void Console::take(int rank, Stream stream, std::string_view bytes) {
  if (is_closed_) return;
  if (records_) return tell(record(stream == Stream::out ? RecordKind::out : RecordKind::err, rank, bytes));
  Sink& sink = stream == Stream::out ? out_ : err();
  LineCutter& lines =
      lines_.try_emplace({rank, stream}, sink, prefix_ ? prefix_for(rank, sink) : "").first->second;
  bytes.empty() ? lines.finish() : lines.feed(bytes);
}

void Console::say(std::string_view text) {
  records_ ? tell(record(RecordKind::say, 0, text)) : err().line("kolo: ", with_code(std::string(text)));
}

void Console::tell(std::string_view bytes) {
  if (!is_closed_) out_.append(bytes);
}

OutputReady Console::ready() const {
  const bool is_one = one_sink_ || records_;
  return {launcher_ready_.out && !out_.full(), launcher_ready_.err && !(is_one ? out_ : err_).full()};
}

void Console::watch(std::vector<pollfd>& entries) const {
  for (const Sink* sink : {&out_, &err_}) {
    if (sink->pending()) entries.push_back({sink->fd(), POLLOUT, 0});
  }
}

int Console::drain() {
  bool moves = false;
  for (Sink* sink : {&out_, &err_}) {
    const std::size_t before = sink->size();
    const int error = sink->drain();
    moves = moves || sink->size() < before;
    if (error == 0) continue;
    sink->clear();
    if (error_ == 0) error_ = error;
  }
  if (reader_by_ && (moves || !(out_.pending() || err_.pending()))) hurry();
  if (reader_by_ && reader_by_->passed()) close();
  return error_;
}

void Console::hurry() {
  reader_by_ = Deadline::after(std::chrono::seconds(1));
}

void Console::close() {
  is_closed_ = true;
  launcher_ready_ = {};
  out_.clear();
  err_.clear();
}

bool Console::finish() {
  out_.end_update();
  err_.end_update();
  drain();
  return !out_.pending() && !err_.pending();
}

}  // namespace kolo::cli
