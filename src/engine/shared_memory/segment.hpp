// Segment: what a rank publishes to the other ranks of its host, in its LocalPeer::own_segment(). The
// comment on each atomic names the access that its memory order pairs with. Models in tests/unit/memory_model
// check them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>

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
/// Private data up to this size also travels with its descriptor.
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
  /// Number of ranks that sleep until `finished` changes: see engine/shared_memory/nap.hpp.
  std::atomic<std::uint32_t> napping;
  /// Number of ranks that sleep until a peer rings, and wait for `finished`. A rank that has changed
  /// `finished` looks for sleeping ranks only if there is one here. Relaxed: the fences are those of
  /// `Segment::asleep`, and wake_nappers() has the publisher's.
  std::atomic<std::uint32_t> sleeping;

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

  /// Relaxed: the other ranks learn through the store that they may use it.
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

struct CommSlot {
  /// Counters only grow. `Call::publish()` stores with release, `Team::has_come()` loads with acquire. A
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

/// All zero is an empty segment. Besides `SliceCounters`, ranks write in other ranks' segments only data: the
/// lines that they have just read (see `kernels::own_lines()`) and, in an all_reduce, the sums in place of
/// the data that was summed.
struct Segment {
  /// `memory`: of a LocalPeer that has a segment of this size.
  static Segment& in(std::span<std::byte> memory) {
    return *std::launder(reinterpret_cast<Segment*>(memory.data()));
  }

  /// Odd while this rank sleeps and wants to be woken when something changes. Relaxed, beside two fences: one
  /// in `Peers::announce_sleep()`, one in `Team::tell()`.
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> core;  ///< 1 + the core on which this rank last waited. Relaxed: a hint
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
