// EventSet: waits for many descriptors at once, and can be woken by another thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace kolo::net {

/// An epoll of descriptors, each known by a small number. While one thread is in wait(), other threads may
/// change interest or wake.
class EventSet {
 public:
  EventSet();

  /// Polls readable when one of the descriptors does.
  int fd() const { return epoll_.get(); }
  Status add(int fd, std::uint32_t number);
  void remove(int fd);
  /// Also wake when the descriptor takes bytes.
  void set_writable_interest(int fd, std::uint32_t number, bool wanted);
  /// Blocks for at most `timeout_ms` (0: only polls); returns the numbers of the descriptors that are ready.
  /// Valid until the next call.
  std::span<const std::uint32_t> wait(int timeout_ms);
  /// Not ok after a wait() that has failed.
  const Status& status() const { return status_; }
  /// Ends the current or the next wait() with a positive timeout.
  void wake();

 private:
  static constexpr std::uint32_t kKick = ~0u;

  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<std::uint32_t> woken_;
  Status status_;
};

}  // namespace kolo::net
