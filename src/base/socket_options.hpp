// Options of sockets. Each is an improvement, none a condition: what the system does not know it does
// without.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace kolo {

inline void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Small writes leave at once, and a connection over which nothing moves notices a host that has vanished
/// within half a minute.
inline void tune_connection(int fd) {
  constexpr int kProbeAfterSeconds = 10;  // of silence
  constexpr int kProbeEverySeconds = 5;
  constexpr int kProbes = 4;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEverySeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace kolo
