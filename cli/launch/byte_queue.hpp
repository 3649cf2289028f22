// A queue of bytes for a descriptor whose reader may be slow.
#pragma once

#include <limits.h>

#include <string>
#include <string_view>

namespace kolo::cli {

/// Never blocks. Memory is bounded by the bytes queued at one time, not by the total.
class ByteQueue {
 public:
  ByteQueue& append(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  bool pending() const { return written_ < bytes_.size(); }
  /// The queue is long: the reader is slow.
  bool full() const { return bytes_.size() - written_ > (1u << 20); }
  void clear() { bytes_.clear(), written_ = 0; }
  /// Writes as much as `fd` takes, at most `chunk` bytes at a time; poll(2) guarantees PIPE_BUF bytes of room
  /// in a pipe. Returns an errno (EPIPE: the reader has closed), or 0.
  int drain(int fd, std::size_t chunk = PIPE_BUF);

 private:
  std::string bytes_;
  std::size_t written_ = 0;
};

}  // namespace kolo::cli
