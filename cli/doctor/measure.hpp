// Latency, bandwidth and clocks between two ranks.
#pragma once

#include <memory>

#include "doctor/examination.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// Called by both ranks of a pair, which share `store`. A communicator of the two ranks measures what a job
/// would get. Only rank `from` gets the measurements; each rank gets its own error.
Pair measure_pair(std::shared_ptr<Store> store, int from, int to, int me);

}  // namespace kolo::doctor
