// Arrival where each rank has a core: a rank polls the other ranks' descriptors.
#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/shared_memory/arrival.hpp"

namespace kolo::engine::shared_memory {

void Arrival::announced(Running& running) const {
  running.call.published->changed = true;
  // A peer that waits for this rank on this very core leaves it: see Peers::shares_core().
  running.call.segment->publish_core();
}

/// Stops at `running.announced_ranks`, the first rank that has not announced the call, or has announced
/// another one.
Arrival::Announced Arrival::poll(Running& running) const {
  for (; running.announced_ranks < running.call.size; ++running.announced_ranks) {
    if (running.announced_ranks == running.call.rank) continue;
    const CallDescriptor& descriptor = running.descriptor_of(running.announced_ranks);
    const std::uint64_t number = descriptor.number.load(std::memory_order_acquire);
    if (!running.has_place_of(number)) return Announced::not_yet;
    if ((number & ~CallDescriptor::kBehindOthers) != running.number ||
        !(descriptor.signature == running.signature))
      return Announced::otherwise;
  }
  return Announced::by_all;
}

void Arrival::find_contributions(Running& running) {
  std::vector<const void*>& from = running.call.from;
  from.resize(running.call.slots.size());
  for (std::size_t r = 0; r < from.size(); ++r) from[r] = running.content_of(static_cast<int>(r));
}

void Arrival::finish_short(Running& running) const {
  find_contributions(running);
  shared_memory::finish_short(running.call);
}

/// One rank may do the call for all ranks. If all ranks have started short calls in a row, each rank does
/// some for all, a few consecutive ones at a time. Ranks that share every one of them read and write in the
/// same pages at the same time, where their prefetchers take lines from each other: 200 calls of 4 KiB took
/// three times as long. Each rank does its slice also if a rank waited for just this call when it made it.
void Arrival::divide(Running& running) const {
  constexpr std::uint64_t kTurnBytes = 64 << 10;  // the longest call that one rank sums for all
  running.call.owner = -1;
  if (running.shown > kTurnBytes) return;
  for (int r = 0; r < running.call.size; ++r) {
    // Relaxed: poll() has acquired it.
    const std::uint64_t number = running.descriptor_of(r).number.load(std::memory_order_relaxed);
    if ((number & CallDescriptor::kBehindOthers) == 0) return;
  }
  const auto ranks = static_cast<std::uint64_t>(running.call.size);
  const std::uint64_t in_a_row = std::max<std::uint64_t>(kCallsAhead / ranks, 1);
  running.call.owner = static_cast<int>(running.call.place / in_a_row % ranks);
}

Awaited Arrival::awaited(const Running& running) const {
  if (running.announced_ranks == running.call.size) return {};
  const std::atomic<std::uint64_t>& number = running.descriptor_of(running.announced_ranks).number;
  const std::uint64_t seen = number.load(std::memory_order_acquire);
  return running.has_place_of(seen) ? Awaited{} : Awaited{&number, seen};
}

}  // namespace kolo::engine::shared_memory
