// Frames: the protocol between the launcher and its agents on other hosts, over the pipes of ssh.
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
  out = 'o',      ///< number: the rank; text: its output, empty at the end of the stream
  err = 'e',      ///< as `out`, for standard error
  running = 'r',  ///< number: how many ranks are running now
  failed = 'x',   ///< number: the rank; see encode_ending()
  left = 'l',     ///< text: the processes that could not be ended
  done = 'd',     ///< no process of the job is left on this host
  // from the launcher
  job = 'J',     ///< see encode_part()
  signal = 'S',  ///< number: the signal, for the ranks
  group = 'G',   ///< number: the signal, for the ranks' process groups
  finish = 'F',  ///< number 1: processes that ranks left behind get SIGKILL from now on
  room = 'R',  ///< number: sum of 1 (room for output) and 2 (room for errors); a stream without room waits in
               ///< the ranks' pipes
  alive = 'A',  ///< keeps the connection alive
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  std::uint32_t number = 0;
  std::string text;
};

/// Parses frames from a stream. A frame over 16 MiB is an error.
class FrameReader {
 public:
  void feed(std::string_view bytes);
  /// The next whole frame; nullopt: not complete yet; Code::system for invalid bytes.
  Result<std::optional<Frame>> next();
  /// Skips up to and including kAgentHello; false: it has not come yet. An error if it cannot come any more,
  /// or if the agent has another version.
  Result<bool> skip_to_hello();
  /// The bytes that came instead of frames.
  std::string_view buffered() const { return std::string_view(buffer_).substr(taken_); }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

/// Writes frames into a pipe that may be full; never blocks.
class FrameWriter {
 public:
  void text(std::string_view bytes) { queue_.append(bytes); }
  void frame(FrameKind kind, std::uint32_t number = 0, std::string_view text = {});
  bool pending() const { return queue_.pending(); }
  bool full() const { return queue_.full(); }
  /// Writes as much as the descriptor takes. False if the reader has closed.
  bool drain(int fd) { return queue_.drain(fd) == 0; }

 private:
  ByteQueue queue_;
};

/// Joins texts without zero bytes into one.
std::string join_texts(const std::vector<std::string>& texts);
std::vector<std::string> split_texts(std::string_view joined);

/// Reads the available bytes without blocking; false at the end of the stream.
bool read_some(int fd, std::string& into);

}  // namespace kolo::cli
