// Tries which ranks can reach each other, in both directions and with the transport that a job uses.
#pragma once

#include <vector>

#include "doctor/examination.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// Collective over `ranks`, which share `store`: each rank dials every other rank at its real listening port.
/// In each round every rank dials once and is dialled once, so an address that does not answer costs a round
/// only its timeout. Returns the dials of rank `me`.
std::vector<Dial> dial_all(Store& store, const std::vector<int>& ranks, int me);

}  // namespace kolo::doctor
