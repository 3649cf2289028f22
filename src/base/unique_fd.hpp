// UniqueFd: a file descriptor that is closed exactly once, and is never one of the three standard ones.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace kolo {

class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes ownership of what the system has just opened, or of -1. If a standard stream is closed, the system
  /// gives its number to the next file, and the log or the program's output would go there. Such a file moves
  /// to a higher number or, if that fails, is closed: then errno says why it is not valid().
  explicit UniqueFd(int fd) : fd_(fd > STDERR_FILENO || fd < 0 ? fd : moved(fd)) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  static int moved(int fd) noexcept {
    const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    ::close(fd);
    errno = error;
    return higher;
  }

  int fd_ = -1;
};

}  // namespace kolo
