// Latency, bandwidth and clocks between two ranks.
#pragma once

#include <memory>

#include "doctor/examination.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// Called by both ranks of a pair, who meet in `store`; a communicator of their own measures what a job would
/// get. Errors are in the result, which is the same on both but for them.
Pair measure_pair(std::shared_ptr<Store> store, int from, int to, int me);

}  // namespace kolo::doctor
