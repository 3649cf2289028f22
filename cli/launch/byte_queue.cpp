#include "launch/byte_queue.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace kolo::cli {

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

}  // namespace kolo::cli
