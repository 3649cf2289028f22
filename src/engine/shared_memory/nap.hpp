// Naps: how ranks that share cores wait for each other. A rank that naps takes no core, and one system call
// wakes all ranks that wait for the same number, while a doorbell (Team::tell()) takes one for each rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "engine/shared_memory/slice_counters.hpp"

namespace kolo::engine::shared_memory {

/// Sleeps until `counters.finished` is another number than `seen`, a waker has called wake_nappers(), or the
/// time has passed. May return early. `sums`: this rank may be needed to sum for all.
void nap(SliceCounters& counters, std::uint64_t seen, std::chrono::nanoseconds longest, bool sums);

/// To be called after `counters.finished` was stored. Wakes all ranks that nap. No wake-up is lost: this rank
/// stores `finished`, then loads `napping`. A napping rank stores `napping`, then the system compares
/// `finished` with `seen`. A fence stands between the two on both sides. The caller may load
/// `counters.sleeping` afterwards.
void wake_nappers(SliceCounters& counters);
/// Wakes one rank that may sum for all. To be called as wake_nappers(), and no wake-up is lost either.
void wake_to_sum(SliceCounters& counters);

}  // namespace kolo::engine::shared_memory
