#include "launch/reserved_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/status.hpp"
#include "net/socket.hpp"

namespace kolo::cli {
namespace {

Result<UniqueFd> bind_any_port(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno("socket", errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.data(), address.size()) != 0) return Status::from_errno("bind", errno);
  return fd;
}

}  // namespace

ReservedPort::ReservedPort(bool loopback) {
  Status last;
  // All interfaces: tries dual-stack IPv6 first, then IPv4 alone.
  for (const SocketAddress& address : resolve(loopback ? "127.0.0.1" : "", 0).value_or_throw()) {
    Result<UniqueFd> bound = bind_any_port(address);
    if (bound.ok()) {
      fd_ = std::move(*bound);
      port_ = local_port(fd_.get());
      return;
    }
    last = bound.status();
  }
  last.prefixed("cannot reserve a port").throw_if_error();
}

}  // namespace kolo::cli
