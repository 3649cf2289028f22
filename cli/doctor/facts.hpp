// What a rank can say about its own host.
#pragma once

#include "doctor/examination.hpp"

namespace kolo::doctor {

/// Tries what kolo will need: descriptors, shared memory, reads of another process's memory.
Facts gather_facts(int rank);

/// The network card of a connected socket of ours; without a name where it is none of this host's.
Card card_of(int socket);

}  // namespace kolo::doctor
