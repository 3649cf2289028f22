#include "net/listener.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"

namespace kolo::net {
namespace {

constexpr std::chrono::milliseconds kWindow{100};
constexpr int kTurn = 64;  // connections of one socket; then the owner serves those that it has
constexpr int kMostWarnings = 5;

std::vector<UniqueFd> only(UniqueFd socket) {
  std::vector<UniqueFd> sockets;
  sockets.push_back(std::move(socket));
  return sockets;
}

}  // namespace

Listener::Listener(std::string name, std::vector<UniqueFd> sockets, int most_at_once)
    : name_(std::move(name)),
      sockets_(std::move(sockets)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      most_at_once_(most_at_once) {
  if (!epoll_.valid()) status_ = Status::from_errno("epoll", errno);
  watch(EPOLL_CTL_ADD, true);
}

Listener::Listener(std::string name, UniqueFd socket, int most_at_once)
    : Listener(std::move(name), only(std::move(socket)), most_at_once) {}

void Listener::watch(int operation, bool wanted) {
  for (const UniqueFd& socket : sockets_) {
    epoll_event event{};
    event.events = wanted ? EPOLLIN : 0u;
    if (::epoll_ctl(epoll_.get(), operation, socket.get(), &event) != 0 && status_.ok())
      status_ = Status::from_errno("epoll_ctl", errno);
  }
}

void Listener::pause() {
  resume_at_ = Clock::now() + kWindow;
  watch(EPOLL_CTL_MOD, false);
}

void Listener::accept(Owner& owner) {
  const auto now = Clock::now();
  if (now >= resume_at_) {
    resume_at_ = Clock::time_point::max();
    watch(EPOLL_CTL_MOD, true);
  }
  if (now - window_began_ >= kWindow) {
    window_began_ = now;
    taken_ = 0;
  }
  for (const UniqueFd& socket : sockets_) {
    for (int i = 0; i < kTurn && resume_at_ == Clock::time_point::max(); ++i) {
      if (!accept_one(socket.get(), owner)) break;
    }
  }
}

/// False if no connection waits, or none can be taken now.
bool Listener::accept_one(int socket, Owner& owner) {
  UniqueFd fd(::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    if (would_block(error)) return false;
    const bool is_exhausted = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (!is_exhausted) return true;  // this connection has gone again; the next one may be there
    trouble_ = std::strerror(error);
    // Half of them, so that descriptors are left for the rest of the process.
    if (const std::size_t strangers = owner.strangers(); strangers > 0) {
      owner.drop_strangers((strangers + 1) / 2);
      return true;
    }
    if (warnings_ < kMostWarnings) {
      ++warnings_;
      log().warn("{} cannot take more connections: {} (ulimit -n)", name_, trouble_);
    }
    pause();
    return false;
  }
  if (++taken_ >= most_at_once_) pause();
  if (Status admitted = owner.admit(fd.get()); !admitted.ok()) {
    report(fd.get(), admitted.message(), admitted.code() != Code::peer_lost);
    const std::string reason = Handshake::refusal_of_user();
    ::send(fd.get(), reason.data(), reason.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return true;
  }
  if (owner.strangers() >= owner.most_strangers()) owner.drop_strangers(1);
  owner.accepted(std::move(fd));
  return true;
}

void Listener::report(int fd, const std::string& why, bool may_be_rank) {
  const bool warn = may_be_rank && warnings_ < kMostWarnings;
  if (warn) ++warnings_;
  log().log(warn ? spdlog::level::warn : spdlog::level::debug, "{} refused {}: {}", name_, remote_name(fd),
            why);
}

}  // namespace kolo::net
