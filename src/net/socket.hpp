// Sockets: options, listening, connecting, and transfers that end at a deadline.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/config.hpp"
#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "net/address.hpp"

namespace kolo::net {

/// Whether a call on a non-blocking descriptor failed only because it would have to wait.
inline bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

/// Calls ::bind or ::connect with an abstract Unix address, which disappears with its socket, however the
/// process ends. Returns errno, or 0. `name`: at most 107 bytes.
int call_with_abstract_address(int (*function)(int, const sockaddr*, socklen_t), int fd,
                               std::string_view name);

/// An option that the system does not know is ignored: each is an improvement only.
void set_option(int fd, int level, int option, int value);

/// Sends small writes at once. Keep-alive probes notice within half a minute that the host of an idle
/// connection has vanished.
void tune_connection(int fd);

/// A stream socket, non-blocking.
Result<UniqueFd> open_socket(int family);
/// A listening socket, non-blocking; the error is Code::system with the errno's text. At port 0: at the first
/// free one of `ports`; if none is free, Code::invalid_argument.
Result<UniqueFd> listen_on(const SocketAddress& address, const PortRange& ports = {});
/// Whether listen_on() failed with this because another socket has the port. Of two processes that bind it at
/// the same time, one may learn it only when it listens.
bool is_taken(const Status& status);
std::uint16_t local_port(int fd);
/// For log messages: the numeric address of the other side.
std::string remote_name(int fd);

/// A connected socket, non-blocking, without delay, with keep-alive.
Result<UniqueFd> connect_to(const SocketAddress& address, const Deadline& deadline);

/// Waits for the first byte, then returns the bytes that are there; errors as below.
Result<std::size_t> receive_some(int fd, std::span<std::byte> into, const Deadline& deadline);

/// All of the bytes or an error: Code::timeout at the deadline, Code::peer_lost if the other side is gone.
Status send_all(int fd, std::string_view bytes, const Deadline& deadline);
Status receive_all(int fd, std::string& into, const Deadline& deadline);

}  // namespace kolo::net
