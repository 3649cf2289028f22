// Forwards the ranks' output to the launcher's output in whole lines.
#pragma once

#include <string>
#include <string_view>

#include "launch/byte_queue.hpp"

namespace kolo::cli {

/// The launcher's standard output or error. Text is queued and written as fast as the reader reads. So a
/// reader that pauses (less, Ctrl-S) does not keep the launcher from handling signals. Not thread-safe.
class Sink {
 public:
  explicit Sink(int fd);

  int fd() const { return fd_; }
  /// A terminal: colours, and progress lines that redraw themselves.
  bool live() const { return live_; }
  bool colored() const { return colored_; }

  /// Continues the fragment of `writer` if it is last; else starts a new line.
  void line(std::string_view prefix, std::string_view text, const void* writer = nullptr);
  /// Replaces the update shown last; only where live().
  void update(std::string_view prefix, std::string_view text);
  /// Text without an end of line. Text of another writer then starts a new line.
  void fragment(std::string_view text, const void* writer);
  void end_update();

  bool pending() const { return queue_.pending(); }
  /// The queue is long: read no more from the ranks until the reader has caught up.
  bool full() const { return queue_.full(); }
  /// Writes as much as the descriptor takes without blocking. Returns an errno (EPIPE: the reader has
  /// closed), or 0.
  int drain() { return queue_.drain(fd_, chunk_); }
  void discard() { queue_.clear(); }

 private:
  void begin_line(const void* writer);

  int fd_;
  bool live_;
  bool colored_;
  std::size_t chunk_;
  ByteQueue queue_;
  const void* in_line_ = nullptr;  ///< writer of the fragment at the end
  bool in_update_ = false;         ///< an update is on the screen
};

/// Cuts one stream of one rank into lines for a sink. A carriage return restarts the line. A terminal shows
/// each state of the line, other outputs only its last state. Lines over 1 MiB are broken.
class LineCutter {
 public:
  /// With an empty prefix, lines pass unchanged, one whole line at a time. Must not be moved after its first
  /// feed(): the sink identifies it by its address.
  LineCutter(Sink& sink, std::string prefix);

  void feed(std::string_view bytes);
  /// The end of the stream: the remaining text is a line too.
  void finish();

 private:
  void redraw();

  Sink* sink_;
  std::string prefix_;
  std::string partial_;
};

}  // namespace kolo::cli
