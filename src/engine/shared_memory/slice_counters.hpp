// SliceCounters: how ranks that share cores count their arrivals at a call and take shares of it. Models in
// tests/unit/memory_model check the memory orders.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

namespace kolo::engine::shared_memory {

/// For ranks that share cores: counts the ranks that have arrived at a call, or at a piece of one, and the
/// shares into which it is cut. The last rank to arrive opens it. Each rank that runs then takes the next
/// share. All ranks write here. Counts start at a base that depends on the place of the call (or on the
/// number of the piece), so the values that earlier calls left need no clearing.
struct alignas(64) SliceCounters {
  static constexpr std::uint64_t kMost = 1 << 16;  ///< largest number of ranks, and of shares of a call
  static constexpr std::size_t kResultBytes = 32;

  std::atomic<std::uint64_t> taken;  ///< needs no order: a rank that takes a share has acquired `finished`
  /// open() stores none_of() here, then each share adds one: a waiting rank watches this number alone. Each
  /// update is a release and continues the release sequence before it. So the acquire load of is_finished()
  /// sees what all ranks have written for their shares, and follows what they have read.
  std::atomic<std::uint64_t> finished;
  /// Each update is a release and an acquire: the last rank to arrive sees what all ranks have written
  /// before.
  std::atomic<std::uint64_t> arrived;
  /// What the last rank to arrive has computed for all. Written before its share is finished.
  std::byte result[kResultBytes];
  /// Rung for the ranks that sleep until `finished` changes, and their number: see
  /// engine/shared_memory/nap.hpp.
  std::atomic<std::uint32_t> bell;
  std::atomic<std::uint16_t> napping;
  /// Number of ranks that sleep until a peer rings, and wait for `finished`. A rank that has changed
  /// `finished` looks for sleeping ranks only if there is one here. Relaxed: the fences are those of
  /// `Segment::asleep`, and wake_nappers() has the publisher's.
  std::atomic<std::uint16_t> sleeping;

  static std::uint64_t none_of(std::uint64_t place) { return (place + 1) * kMost; }
  /// Returns whether this rank is the last of `ranks`. It calls open() next.
  bool arrive(std::uint64_t place, std::uint64_t ranks) {
    return count_on(arrived, none_of(place), none_of(place) + ranks) == ranks - 1;
  }
  /// A rank that sees the call open also sees what all ranks wrote before they arrived. No rank finishes a
  /// share before this store, which therefore may overwrite the number.
  void open(std::uint64_t place) { finished.store(none_of(place), std::memory_order_release); }
  bool is_open(std::uint64_t place) const {
    return finished.load(std::memory_order_acquire) >= none_of(place);
  }
  /// Whether a share has been taken. May be stale.
  bool is_taken(std::uint64_t place) const { return taken.load(std::memory_order_relaxed) > none_of(place); }
  /// Takes the next of `count` shares; nullopt when none is left.
  std::optional<std::uint64_t> take(std::uint64_t place, std::uint64_t count) {
    return count_on(taken, none_of(place), none_of(place) + count);
  }
  bool is_finished(std::uint64_t place, std::uint64_t count) const {
    return finished.load(std::memory_order_acquire) >= none_of(place) + count;
  }
  /// A rank that sees this share counted also sees what this rank wrote before. Returns whether it was the
  /// last share.
  bool finish_one(std::uint64_t place, std::uint64_t count) {
    return count_on(finished, none_of(place), none_of(place) + count) == count - 1;
  }

  /// Relaxed: the other ranks learn through the store that they may use it. The bell goes on.
  void clear() {
    for (std::atomic<std::uint64_t>* number : {&taken, &finished, &arrived})
      number->store(0, std::memory_order_relaxed);
    napping.store(0, std::memory_order_relaxed);
    sleeping.store(0, std::memory_order_relaxed);
  }

 private:
  static std::optional<std::uint64_t> count_on(std::atomic<std::uint64_t>& counter, std::uint64_t begin,
                                               std::uint64_t end) {
    std::uint64_t seen = counter.load(std::memory_order_relaxed);  // if stale, the exchange fails
    std::uint64_t next = 0;
    do {
      next = std::max(seen, begin);
      if (next >= end) return std::nullopt;
    } while (!counter.compare_exchange_weak(seen, next + 1, std::memory_order_acq_rel));
    return next - begin;
  }
};
static_assert(sizeof(SliceCounters) == 64);

}  // namespace kolo::engine::shared_memory
