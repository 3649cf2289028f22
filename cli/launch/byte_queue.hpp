// Bytes on their way into a descriptor whose reader may be slow.
#pragma once

#include <limits.h>

#include <string>
#include <string_view>

namespace kolo::cli {

/// Blocks never. Memory is bounded by what waits at one time, not by what has passed.
class ByteQueue {
 public:
  ByteQueue& append(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  bool pending() const { return written_ < bytes_.size(); }
  /// The reader is far behind.
  bool full() const { return bytes_.size() - written_ > (1u << 20); }
  void clear() { bytes_.clear(), written_ = 0; }
  /// Writes what `fd` takes, at most `chunk` bytes at a time; poll(2) promises a pipe room for PIPE_BUF.
  /// The errno of what failed (EPIPE: nobody reads any more), or 0.
  int drain(int fd, std::size_t chunk = PIPE_BUF);

 private:
  std::string bytes_;
  std::size_t written_ = 0;
};

}  // namespace kolo::cli
