// What the ranks print, on its way to ours: whole lines, never mixed.
#pragma once

#include <string>
#include <string_view>

#include "launch/byte_queue.hpp"

namespace kolo::cli {

/// Our standard output or error. Text is queued, and written as the reader takes it, so that a reader who
/// stops (less, Ctrl-S) does not stop the launcher from hearing signals. Not thread-safe.
class Sink {
 public:
  explicit Sink(int fd);

  int fd() const { return fd_; }
  /// A terminal: colours, and progress lines that redraw themselves.
  bool live() const { return live_; }
  bool colored() const { return colored_; }

  /// `writer` goes on where its own fragment stands at the end.
  void line(std::string_view prefix, std::string_view text, const void* writer = nullptr);
  /// Replaces the update shown last; only where live().
  void update(std::string_view prefix, std::string_view text);
  /// Text without an end; what anybody else writes then begins a new line.
  void fragment(std::string_view text, const void* writer);
  void end_update();

  bool pending() const { return queue_.pending(); }
  /// The reader is far behind: take no more from the ranks until it has caught up.
  bool full() const { return queue_.full(); }
  /// Writes what the descriptor takes without blocking. The errno of what failed (EPIPE: nobody reads any
  /// more), or 0.
  int drain() { return queue_.drain(fd_, chunk_); }
  void discard() { queue_.clear(); }

 private:
  void begin_line(const void* writer);

  int fd_;
  bool live_;
  bool colored_;
  std::size_t chunk_;
  ByteQueue queue_;
  const void* in_line_ = nullptr;  ///< whose fragment stands at the end
  bool in_update_ = false;         ///< an update is on the screen
};

/// One stream of one rank, cut into lines for a sink. A carriage return starts the line anew, as on a
/// terminal: there each state is shown as it comes, elsewhere only the line's last state. Lines over 1 MiB
/// are broken.
class LineCutter {
 public:
  /// An empty prefix passes everything through unchanged but whole lines at a time. Not to be moved after its
  /// first feed(): the sink knows it by its place.
  LineCutter(Sink& sink, std::string prefix);

  void feed(std::string_view bytes);
  /// The end of the stream: what is left is a line too.
  void finish();

 private:
  void redraw();

  Sink* sink_;
  std::string prefix_;
  std::string partial_;
};

}  // namespace kolo::cli
