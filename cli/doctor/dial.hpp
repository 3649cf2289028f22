// Who can reach whom, tried in both directions with the transport that a job uses.
#pragma once

#include <vector>

#include "doctor/examination.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// Collective over `ranks`, which meet in `store`: each dials each other one at its real listening port.
/// Rounds in which everybody dials once and is dialled once, so that silence costs each round its few seconds
/// and no more. The dials of rank `me`.
std::vector<Dial> dial_all(Store& store, const std::vector<int>& ranks, int me);

}  // namespace kolo::doctor
