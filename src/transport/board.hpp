// Board: what one rank shows to the other ranks of its host. It alone writes there, but for the pieces of
// long private data: see Neighbour::board(). The comment on each atomic says what its orders pair with;
// models in tests/unit/memory_model check them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "transport/endpoint.hpp"
#include "transport/message.hpp"

namespace kolo {

/// Every communicator writes in a lane of its own. More communicators than lanes: the later ones do without.
inline constexpr std::uint32_t kLanes = 64;
/// Calls that a rank may have announced and not finished. A rank that has finished call k has seen everybody
/// announce it, and by then everybody had finished call k - kCallsAhead; so a note is not written again
/// before all have read it.
inline constexpr std::uint32_t kCallsAhead = 16;
inline constexpr std::uint32_t kNotes = 2 * kCallsAhead;
/// Data up to this size travels with its note,
inline constexpr std::size_t kShortBytes = 1024;
/// and private data up to this size.
inline constexpr std::size_t kNoteBytes = 4096;
/// The longest piece of longer data on its way from private memory to private memory; there are two, so that
/// one is written while the other is read.
inline constexpr std::size_t kStageBytes = 512 << 10;

/// A call, announced to the other ranks: one cache line, its number stored last.
struct alignas(64) Note {
  static constexpr std::size_t kInline = 32;
  /// In a number: when its rank started it, others were under way and nobody waited for this one.
  static constexpr std::uint64_t kBehindOthers = std::uint64_t{1} << 63;

  /// Stored with release after the rest of the note and its data, loaded with acquire before they are read.
  /// The release also ends this rank's reads of the notes and data of call k - kCallsAhead, which their
  /// owners overwrite after they have acquired it.
  std::atomic<std::uint64_t> number;
  Signature signature;
  union {
    RemoteRange memory[2];       ///< where input and output are, beyond kShortBytes; region 0: private
    std::byte content[kInline];  ///< of a call that fits
  };
};
static_assert(sizeof(Note) == 64);

/// A call cut into shares, of which whoever runs takes the next. All ranks write here, and count on from the
/// place of the call, so that what earlier calls left needs no clearing.
struct alignas(64) Shares {
  static constexpr std::uint64_t kMost = 1 << 16;  ///< shares of a call

  std::atomic<std::uint64_t> taken;  ///< needs no order: a rank that takes a share has acquired all notes
  /// Each update is a release, and continues the releases before it. So the acquire load of is_finished()
  /// sees what all ranks have written for their shares, and ends what they read.
  std::atomic<std::uint64_t> finished;

  static std::uint64_t none_of(std::uint64_t place) { return (place + 1) * kMost; }
  /// The next of `count` shares; nullopt when none is left.
  std::optional<std::uint64_t> take(std::uint64_t place, std::uint64_t count) {
    return count_on(taken, none_of(place), none_of(place) + count);
  }
  bool is_finished(std::uint64_t place, std::uint64_t count) const {
    return finished.load(std::memory_order_acquire) >= none_of(place) + count;
  }
  /// What was written before is seen by whoever sees it. Returns whether it was the last.
  bool finish_one(std::uint64_t place, std::uint64_t count) {
    return count_on(finished, none_of(place), none_of(place) + count) == count - 1;
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

struct Lane {
  /// Counters only grow. Call::publish() stores with release, Group::has_come() loads with acquire: a reader
  /// that sees a count sees all that was written before it, and its writer has read all that it read before
  /// it.
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value;
  };
  Note notes[kNotes];
  /// 1 + the number of the communicator that this rank uses it for; 0 for none. Stored with release when this
  /// rank reads no more of the communicator's lanes, loaded with acquire before a rank uses its own lane for
  /// another one. A stale value delays that.
  std::atomic<std::uint64_t> user;
  Counter staged;         ///< pieces that this rank has put down
  Counter reduced;        ///< pieces of which this rank has reduced its slice, or that it has read
  Counter done;           ///< long calls that this rank has finished with
  Counter at_work;        ///< 1 + the place of the call of which this rank does a share; 0 for none. Relaxed:
                          ///< only blame looks at it
  Shares shares[kNotes];  ///< of the group of ranks of which this is the first
  alignas(4096) std::byte data[kNotes][kNoteBytes];
  alignas(4096) std::byte pieces[2][kStageBytes];

  /// As before its first use. By the rank whose lane it is, while no other rank uses it. Relaxed: the other
  /// ranks hear through the store that they may use it.
  void clear() {
    for (Note& note : notes) note.number.store(0, std::memory_order_relaxed);
    for (Counter* counter : {&staged, &reduced, &done, &at_work})
      counter->value.store(0, std::memory_order_relaxed);
    for (Shares& of_call : shares) {
      of_call.taken.store(0, std::memory_order_relaxed);
      of_call.finished.store(0, std::memory_order_relaxed);
    }
  }
};

/// All zero is an empty board.
struct Board {
  /// Odd while this rank sleeps and wants to be rung when something changes. Relaxed beside two fences, one
  /// in Engine::sleep() and one in Group::tell().
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> core;  ///< 1 + the core that this rank was last seen waiting on. Relaxed: a hint
  /// Shares its cores with others. Relaxed: stored before its first note, whose number orders it too, and
  /// loaded after the notes of all.
  std::atomic<std::uint32_t> crowded;
  /// May be writing in other ranks' memory. A rank stores 1, then loads `closed` of all; the owner of the
  /// memory stores `closed`, then loads `writing` of all. All four are sequentially consistent, so one of the
  /// two sees the other. 0 is stored with release: the owner that loads it comes after what was written.
  alignas(64) std::atomic<std::uint32_t> writing;
  /// No rank may write in this rank's memory any more, nor believe what it reads there. For the readers two
  /// fences order it against the memory itself: one in Group::close(), one in Call::is_given_up().
  alignas(64) std::atomic<std::uint32_t> closed;
  alignas(4096) Lane lanes[kLanes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A peer on the same host, as a native algorithm sees it. Used by the thread that drives the link to it.
class Neighbour {
 public:
  virtual ~Neighbour() = default;

  /// This rank's own board, the same for all of its neighbours.
  virtual Board& own_board() = 0;
  /// The peer's. Others than the peer write there only what they have just read: see kernels::own_lines();
  /// and the sums of all_reduce, in the place of what was summed.
  virtual Board& board() = 0;
  /// Wakes a peer that is asleep in Endpoint::fd().
  virtual void ring() = 0;
  /// How the peer may name memory that kolo gave out, whose descriptor goes along when the peer has not seen
  /// it; nullopt for any other memory.
  virtual std::optional<RemoteRange> share(const void* data, std::size_t bytes) = 0;
  /// The peer's memory in this address space, to read and write; null when it has not been shared, or cannot
  /// be mapped: trouble() then says why.
  virtual std::byte* reach(const RemoteRange& range, std::size_t bytes) = 0;
  virtual const Status& trouble() const = 0;
};

/// Makes the pages under it private to this process, with what they hold: peers that still have them mapped
/// see and change them no more. Memory that kolo did not give out is left alone. Thread-safe.
void detach_shared_memory(const void* data, std::size_t bytes);

/// Counts what is no longer shared: while it stays the same, what kolo gave out and shared still is.
/// Thread-safe.
std::uint64_t shared_memory_losses();

}  // namespace kolo
