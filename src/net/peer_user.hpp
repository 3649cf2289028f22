// same_user(): whether the other side of a TCP connection within this host is a process of this user.
#pragma once

#include "base/status.hpp"

namespace kolo::net {

/// Success: the socket at the other end of `fd`, which is connected, is open in this network namespace and
/// belongs to this process's effective user. Code::rendezvous: it belongs to another user, or the owner is
/// unknown. Code::peer_lost: it has closed. The accepting side's socket has no owner before accept(), so the
/// dialling side must have received something before it calls this. Takes some microseconds.
Status same_user(int fd);

}  // namespace kolo::net
