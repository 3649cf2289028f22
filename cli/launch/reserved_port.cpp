#include "launch/reserved_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/status.hpp"

namespace kolo::cli {

ReservedPort::ReservedPort(bool loopback) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd_.get(), generic, length) != 0 || ::getsockname(fd_.get(), generic, &length) != 0) {
    Status::from_errno("cannot reserve a port", errno).throw_if_error();
  }
  port_ = ntohs(address.sin_port);
}

}  // namespace kolo::cli
