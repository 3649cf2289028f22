#include "net/event_set.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>

namespace kolo::net {

EventSet::EventSet() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kKick;
  if (!epoll_.valid() || !wake_.valid() || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    Status::from_errno("epoll or eventfd", errno).throw_if_error();
  }
}

Status EventSet::add(int fd, std::uint32_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Status::from_errno("epoll_ctl", errno);
  return {};
}

void EventSet::remove(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventSet::set_writable_interest(int fd, std::uint32_t number, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0u);
  event.data.u32 = number;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

std::span<const std::uint32_t> EventSet::wait(int timeout_ms) {
  epoll_event events[64];
  woken_.clear();
  const int count = epoll_wait(epoll_.get(), events, 64, timeout_ms);
  if (count < 0 && errno != EINTR) status_ = Status::from_errno("epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 != kKick) {
      woken_.push_back(events[i].data.u32);
      continue;
    }
    std::uint64_t ignored;
    if (timeout_ms > 0 && read(wake_.get(), &ignored, sizeof ignored) < 0 && errno != EAGAIN) continue;
  }
  return woken_;
}

void EventSet::wake() {
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0 && errno != EAGAIN) return;  // full means: already woken
}

}  // namespace kolo::net
