// Options of sockets. Each is an improvement only: an option that the system does not know is ignored.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace kolo {

inline void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Sends small writes at once. Keep-alive probes notice within half a minute that the host of an idle
/// connection has vanished.
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
