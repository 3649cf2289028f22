#include "transport/attempt.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket.hpp"

namespace kolo::transport {

Attempt::Attempt(UniqueFd fd, net::Handshake handshake, bool connecting)
    : fd_(std::move(fd)),
      handshake_(std::move(handshake)),
      connecting_(connecting),
      unsent_(handshake_.take_output()) {
  if (!connecting_) flush();
}

void Attempt::advance() {
  if (connecting_) {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    refused_ = error == ECONNREFUSED;
    if (error != 0) return fail(std::strerror(error));
    connecting_ = false;
  }
  flush();
  const int known_peer = handshake_.peer();
  while (failure_.empty() && unsent_.empty() && handshake_.wanted() > 0) {
    std::byte buffer[net::Handshake::kMostBytes];
    const ssize_t got = ::recv(fd(), buffer, std::min(sizeof buffer, handshake_.wanted()), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (!net::would_block(errno)) fail(std::strerror(errno));
      return;
    }
    closed_ = got == 0;
    if (closed_) return fail("closed by the other side during the handshake");
    const Status status = handshake_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    if (!status.ok()) {
      unsent_ = handshake_.take_output();  // the reason, for the other side; may get lost without harm
      flush();
      return fail(status.message());
    }
    unsent_ += handshake_.take_output();
    flush();
    if (handshake_.peer() != known_peer) return;  // the caller may not want that rank
  }
}

void Attempt::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (!net::would_block(errno) && errno != ENOTCONN) fail(std::strerror(errno));
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

}  // namespace kolo::transport
