// Merges the output of all ranks into the launcher's standard output and error, in whole lines.
#pragma once

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "launch/records.hpp"

namespace kolo::cli {

enum class Stream { out, err };

/// The output streams that can take more bytes (backpressure).
struct OutputReady {
  bool out = true;
  bool err = true;
  bool operator==(const OutputReady&) const = default;
};

/// A queue of bytes for a descriptor whose reader may be slow. Never blocks. Memory is bounded by the bytes
/// queued at one time, not by the total.
class ByteQueue {
 public:
  ByteQueue& append(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  bool pending() const { return written_ < bytes_.size(); }
  std::size_t size() const { return bytes_.size() - written_; }
  /// The queue is long: the reader is slow.
  bool full() const { return size() > (1u << 20); }
  void clear() { bytes_.clear(), written_ = 0; }
  /// Writes as much as `fd` takes, at most `chunk` bytes at a time; poll(2) guarantees PIPE_BUF bytes of room
  /// in a pipe. Returns an errno (EPIPE: the reader has closed), or 0.
  int drain(int fd, std::size_t chunk = PIPE_BUF);

 private:
  std::string bytes_;
  std::size_t written_ = 0;
};

/// The launcher's standard output or error, as a queue of lines.
class Sink : public ByteQueue {
 public:
  explicit Sink(int fd);

  int fd() const { return fd_; }
  /// A terminal: colours, and progress lines that redraw themselves.
  bool live() const { return live_; }

  /// Continues the fragment of `writer` if it is last; else starts a new line.
  void line(std::string_view prefix, std::string_view text, const void* writer = nullptr);
  /// Replaces the update shown last; only where live().
  void update(std::string_view prefix, std::string_view text);
  /// Text without an end of line. Text of another writer then starts a new line.
  void fragment(std::string_view text, const void* writer);
  void end_update();
  int drain() { return ByteQueue::drain(fd_, chunk_); }

 private:
  void begin_line(const void* writer);

  int fd_;
  bool live_;
  std::size_t chunk_;
  const void* in_line_ = nullptr;  ///< writer of the fragment at the end
  bool in_update_ = false;         ///< an update is on the screen
};

/// Cuts one stream into lines for a sink. A carriage return restarts the line. A terminal shows each state of
/// the line, other outputs only its last state. Lines over 1 MiB are broken.
class LineCutter {
 public:
  /// With an empty prefix, lines pass unchanged, one whole line at a time. Must not be moved after its first
  /// feed(): the sink identifies it by its address.
  LineCutter(Sink& sink, std::string prefix) : sink_(&sink), prefix_(std::move(prefix)) {}

  void feed(std::string_view bytes);
  /// The end of the stream: the remaining text is a line too.
  void finish();

 private:
  void redraw();

  Sink* sink_;
  std::string prefix_;
  std::string partial_;
};

/// Writes whole lines, each with its rank in front. If output and error are the same terminal or file, both
/// share one queue, so their lines do not mix. A part of a job over hosts writes records to standard output
/// instead.
class Console {
 public:
  Console(bool prefix, bool records);

  /// Output of a rank; no bytes: the stream has ended.
  void take(int rank, Stream stream, std::string_view bytes);
  /// A message for the user: "kolo: text", on standard error.
  void say(std::string_view text);
  /// For lines that are not from a rank.
  Sink& err() { return one_sink_ ? out_ : err_; }
  /// Bytes for the launcher of this part.
  void tell(std::string_view bytes);

  OutputReady ready() const;
  /// What the launcher of this part can take.
  void set_launcher_ready(OutputReady ready) { launcher_ready_ = ready; }
  void watch(std::vector<pollfd>& entries) const;
  /// Writes as much as possible without blocking. Returns the first errno so far, or 0; output that cannot be
  /// written is dropped.
  int drain();
  /// The reader of the ranks' output is gone, or not waited for any more.
  void close();
  /// From now on drain() closes where the reader takes nothing for a second.
  void hurry();
  /// Call it after the last line. True when everything is written.
  bool finish();

 private:
  Sink out_{STDOUT_FILENO};
  Sink err_{STDERR_FILENO};
  const bool one_sink_;
  const bool records_;
  OutputReady launcher_ready_;
  bool is_closed_ = false;
  std::optional<Deadline> reader_by_;  ///< after hurry(): when the reader must have taken something
  int error_ = 0;
  const bool prefix_;
  std::map<std::pair<int, Stream>, LineCutter> lines_;  ///< output and error of each rank
};

}  // namespace kolo::cli
