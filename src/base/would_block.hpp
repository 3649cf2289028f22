// would_block: whether a call on a non-blocking descriptor failed only because it would have to wait.
#pragma once

#include <cerrno>

namespace kolo {

inline bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace kolo
