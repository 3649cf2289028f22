// Frames: what the launcher and its agents on other hosts say to each other, over the pipes of ssh.
//
//   agent     kAgentHello, after whatever the host's shell may have printed, then frames
//   launcher  frames: the job, then signals, and something at least every second
//   frame     kind (1 byte), number (4 bytes, little-endian), length of the text (4 bytes), text
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launch/byte_queue.hpp"

namespace kolo::cli {

inline constexpr std::string_view kAgentHello = "kolo-agent 2\n";

enum class FrameKind : char {
  // from an agent
  port = 'p',     ///< number: a free port of its host
  out = 'o',      ///< number: the rank; its output, none at the end
  err = 'e',      ///< the same of standard error
  running = 'r',  ///< number: how many ranks are running now
  failed = 'x',   ///< number: the rank; see encode_ending()
  left = 'l',     ///< what could not be ended
  done = 'd',     ///< nothing of the job is left on this host
  // from the launcher
  job = 'J',     ///< see encode_part()
  signal = 'S',  ///< number: the signal, for the ranks
  group = 'G',   ///< the same, also for what they have started
  finish = 'F',  ///< number 1: what ranks left behind gets SIGKILL from now on
  room = 'R',    ///< number: 1 for room for output, and 2 for errors; what has none waits in the ranks' pipes
  alive = 'A',   ///< nothing new
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  std::uint32_t number = 0;
  std::string text;
};

/// Finds frames in a stream. What arrives is bounded: a frame over 16 MiB is an error.
class FrameReader {
 public:
  void feed(std::string_view bytes);
  /// The next whole frame, nothing yet, or Code::system for senseless bytes.
  Result<std::optional<Frame>> next();
  /// Skips up to and including kAgentHello; false: it has not come yet. An error when it will not, or when
  /// another version's has come.
  Result<bool> skip_to_hello();
  /// What came instead of frames.
  std::string_view buffered() const { return std::string_view(buffer_).substr(taken_); }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

/// Frames on their way into a pipe that may be full; blocks never.
class FrameWriter {
 public:
  void text(std::string_view bytes) { queue_.append(bytes); }
  void frame(FrameKind kind, std::uint32_t number = 0, std::string_view text = {});
  bool pending() const { return queue_.pending(); }
  bool full() const { return queue_.full(); }
  /// Writes what the descriptor takes. False when nobody reads any more.
  bool drain(int fd) { return queue_.drain(fd) == 0; }

 private:
  ByteQueue queue_;
};

/// Texts without zero bytes, in one.
std::string join_texts(const std::vector<std::string>& texts);
std::vector<std::string> split_texts(std::string_view joined);

/// Reads what is there without blocking; false at the end of the stream.
bool read_some(int fd, std::string& into);

}  // namespace kolo::cli
