// Segment: what a rank publishes to the other ranks of its host, in its LocalPeer::own_segment(). The comment
// on each atomic names the access that its memory order pairs with. Models in tests/unit/memory_model check
// them.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "engine/shared_memory/slice_counters.hpp"
#include "transport/local_peer.hpp"
#include "transport/message.hpp"

namespace kolo::engine::shared_memory {

/// Each communicator uses a slot of its own. When all slots are taken, a new communicator runs schedules over
/// its links.
inline constexpr std::uint32_t kCommSlots = 64;
/// Calls that a rank may have announced and not finished (M below). Why a descriptor may be reused: a rank
/// announces call k only after it has finished call k - M, so after it has seen all ranks announce k - M. By
/// then all ranks have finished call k - 2M, whose descriptor call k reuses.
inline constexpr std::uint32_t kCallsAhead = 16;
inline constexpr std::uint32_t kDescriptors = 2 * kCallsAhead;
/// Data up to this size always travels with its descriptor.
inline constexpr std::size_t kShortBytes = 1024;
/// Private data up to this size also does, unless ranks wait for it in slices: see is_eager().
inline constexpr std::size_t kDescriptorBytes = 4096;
/// The longest piece in which longer data moves from private memory to private memory. There are two pieces:
/// one is written while the other is read.
inline constexpr std::size_t kStageBytes = 512 << 10;

/// Announces a call to the other ranks: one cache line, whose `number` is stored last.
struct alignas(64) CallDescriptor {
  static constexpr std::size_t kInline = 32;
  /// Bit of `number`: other calls of this rank were in flight when it started this one, and no thread waited
  /// for it.
  static constexpr std::uint64_t kBehindOthers = std::uint64_t{1} << 63;

  /// Stored with release after the rest of the descriptor and its data, loaded with acquire before they are
  /// read. The release also ends this rank's reads of the descriptors and data of call k - `kCallsAhead`.
  /// Their owners overwrite those after they have acquired this number.
  std::atomic<std::uint64_t> number;
  transport::Signature signature;
  union {
    /// Where input and output are, if longer than `kShortBytes`; region 0: private.
    transport::RemoteRange memory[2];
    std::byte content[kInline];  ///< data of at most `kInline` bytes
  };
};
static_assert(sizeof(CallDescriptor) == 64);

/// The part of a segment that one communicator uses.
struct CommSlot {
  /// Counters only grow. `Call::publish()` stores with release, `Running::lacking()` loads with acquire. A
  /// rank that sees a count sees all that the owner wrote before it. The owner has also ended all reads that
  /// come before the store.
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value;
  };
  CallDescriptor descriptors[kDescriptors];
  /// 1 + the number of the communicator that this rank uses the slot for; 0 for none. Stored with release
  /// when this rank no longer reads that communicator's slots. Loaded with acquire before another rank reuses
  /// its own slot; a stale value only delays the reuse.
  std::atomic<std::uint64_t> user;
  Counter staged;   ///< pieces that this rank has copied into its segment
  Counter reduced;  ///< pieces of which this rank has reduced its slice, or that it has read
  Counter done;     ///< long calls in which this rank has done its part
  Counter at_work;  ///< 1 + the place of the call of which this rank does a share; 0 for none. Relaxed: read
                    ///< only to find the rank to blame
  /// Used in the slot of the communicator's first rank only: of each call, and of each piece. A rank arrives
  /// at a piece only after all ranks have arrived at the piece before it, so four are enough.
  SliceCounters shares[kDescriptors];
  SliceCounters piece_shares[4];
  alignas(4096) std::byte data[kDescriptors][kDescriptorBytes];
  alignas(4096) std::byte pieces[2][kStageBytes];

  /// Resets the slot to its state before the first use. Called by the rank that owns it, while no other rank
  /// uses it. Relaxed: the other ranks learn through the store that they may use it.
  void clear() {
    for (CallDescriptor& descriptor : descriptors) descriptor.number.store(0, std::memory_order_relaxed);
    for (Counter* counter : {&staged, &reduced, &done, &at_work})
      counter->value.store(0, std::memory_order_relaxed);
    for (SliceCounters& of_call : shares) of_call.clear();
    for (SliceCounters& of_piece : piece_shares) of_piece.clear();
  }
};

/// All zero is an empty segment. `Peers` uses its first line, `Team` the rest. Besides `SliceCounters`, ranks
/// write in other ranks' segments only data: the lines that they have just read (see `kernels::own_lines()`)
/// and, in an all_reduce, the sums in place of the data that was summed.
struct Segment {
  /// `memory`: of a LocalPeer that has a segment of this size.
  static Segment& in(std::span<std::byte> memory) {
    return *std::launder(reinterpret_cast<Segment*>(memory.data()));
  }

  static std::uint32_t place_of(int core) { return 2 * static_cast<std::uint32_t>(core + 1); }
  void publish_core() {
    const std::uint32_t here = place_of(sched_getcpu());
    if (core.load(std::memory_order_relaxed) != here) core.store(here, std::memory_order_relaxed);
  }

  /// Odd while this rank sleeps and wants to be woken when something changes. Relaxed, beside two fences: one
  /// in `Peers::announce_sleep()`, one in `Team::tell()`.
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> core;  ///< place_of() this rank's core, plus 1 while it waits. Relaxed: a hint
  /// This rank may be writing in other ranks' memory. The writer stores 1, then loads `closed` of all ranks.
  /// The owner of the memory stores `closed`, then loads `writing` of all ranks. All four are sequentially
  /// consistent, so at least one side sees the other's store. 0 is stored with release: an owner that loads
  /// it sees all that was written before.
  alignas(64) std::atomic<std::uint32_t> writing;
  /// No rank may write in this rank's memory any more, or trust what it reads there. Two fences order
  /// `closed` against the memory for the readers: one in `Team::close()`, one in `Call::is_given_up()`.
  alignas(64) std::atomic<std::uint32_t> closed;
  alignas(4096) CommSlot slots[kCommSlots];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(alignof(Segment) <= transport::kSegmentAlignment);

}  // namespace kolo::engine::shared_memory
