// same_user(): whether the other side of a TCP connection within this host is a process of this user.
#pragma once

#include "base/status.hpp"

namespace kolo {

/// Success: the socket at the other end of `fd`, which is connected, is open in this network namespace and
/// belongs to this process's effective user. Else Code::rendezvous says whose it is, or that nothing
/// tells, and Code::peer_lost that it has closed. The accepting side's socket has no owner before accept(),
/// so the dialling side asks after it has received something. Takes some microseconds.
Status same_user(int fd);

}  // namespace kolo
