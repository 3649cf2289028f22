// Facts about a rank's own host.
#pragma once

#include "doctor/examination.hpp"

namespace kolo::doctor {

/// Tests what kolo needs: descriptors, shared memory, reads of another process's memory.
Facts gather_facts(int rank);

/// The network interface of a connected socket of this process; its name is empty if this host has no such
/// interface.
Card card_of(int socket);

}  // namespace kolo::doctor
