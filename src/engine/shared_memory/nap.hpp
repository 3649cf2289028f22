// Naps: how ranks that share cores wait for each other. A rank that naps takes no core, and one system call
// wakes all ranks that wait for the same number, while a doorbell (Team::tell()) takes one for each rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "engine/shared_memory/slice_counters.hpp"

namespace kolo::engine::shared_memory {

/// Sleeps until `counters.finished` is another number than `seen`, a waker has called wake_nappers() or
/// interrupt_nap(), or the time has passed. May return early. `sums`: this rank may be needed to sum for all.
void nap(SliceCounters& counters, std::uint64_t seen, std::chrono::nanoseconds longest, bool sums,
         const std::atomic<bool>& interrupted);

/// To be called after `counters.finished` was stored. Wakes all ranks that nap. No wake-up is lost: this rank
/// stores `finished`, then loads `napping`; a napping rank stores `napping`, then loads the bell and
/// `finished`. A fence stands between the two on both sides, so the napping rank sees the number, or this
/// rank sees it nap and rings. A rank that loads the bell after that ring sees the number too; for one that
/// has loaded it before, the system finds another bell or a rank that sleeps. The caller may load
/// `counters.sleeping` afterwards.
void wake_nappers(SliceCounters& counters);
/// Wakes one rank that may sum for all. To be called as wake_nappers(), and no wake-up is lost either.
void wake_to_sum(SliceCounters& counters);
/// Ends the nap of a thread of this process, also one that is about to begin, as long as `interrupted` is
/// true. Wakes the other ranks that nap there, too.
void interrupt_nap(SliceCounters& counters, std::atomic<bool>& interrupted);

}  // namespace kolo::engine::shared_memory
