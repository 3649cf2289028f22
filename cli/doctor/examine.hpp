// What a rank does in an examination: each function returns a part of the Examination.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "doctor/examination.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// Facts about this rank and its host; `place`: its HostMark::name(). Tests shared memory and reads of
/// another process's memory.
Facts gather_facts(int rank, const std::string& place);

/// The network interface of a connected socket of this process; its name is empty if there is none.
Card card_of(int socket);

/// Collective over `ranks`, which share `store`: each rank dials every other rank at its real listening port,
/// with the transport of a job. In each round every rank dials once and is dialled once, so an address that
/// does not answer costs a round only its timeout. Returns the dials of rank `me`. `place`: as
/// gather_facts().
std::vector<Dial> dial_all(Store& store, const std::vector<int>& ranks, int me, const std::string& place);

/// Called by both ranks of a pair, which share `store`: latency, bandwidth and clocks of a communicator of
/// the two. Only rank `from` gets the measurements; each rank gets its own error.
Pair measure_pair(std::shared_ptr<Store> store, int from, int to, int me);

}  // namespace kolo::doctor
