// Call: one collective as its coroutine sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/listed.hpp"
#include "engine/shared_memory/task.hpp"
#include "kernels/kernels.hpp"
#include "schedule/shared_memory_form.hpp"

namespace kolo::engine::shared_memory {

/// What all calls of one shape have in common. The same on all ranks. A value.
struct Shape {
  schedule::SharedMemoryForm form{};
  std::size_t element_bytes = 1;
  std::uint64_t count = 0;                      ///< elements of the whole data
  std::uint64_t most_shown = 0;                 ///< bytes, of the rank that contributes most
  std::vector<schedule::DataRange> shown = {};  ///< by rank: its input, if other ranks read it
  std::vector<schedule::DataRange> parts =
      {};  ///< by rank: what reduce_own reduces there; empty for other forms

  kernels::FoldFn fold = nullptr;  ///< of forms that reduce

  std::uint64_t bytes() const { return count * element_bytes; }
  std::uint64_t shown_bytes(int rank) const {
    return shown[static_cast<std::size_t>(rank)].count * element_bytes;
  }
};

/// `parts`: as for ranges_of().
Shape make_shape(const schedule::SharedMemoryForm& form, std::span<const std::uint64_t> parts, int size,
                 int root, std::size_t element_bytes);

/// What a rank has published since it last woke the ranks that sleep.
struct Published {
  bool changed = false;     ///< something that a sleeping rank may wait for
  bool has_opened = false;  ///< something that a sleeping rank may have to sum
};

/// One call in flight on one rank. The algorithms read and advance it, and so does Team (team.hpp).
struct Call {
  const Shape* shape = nullptr;
  kernels::FoldFn fold = nullptr;  ///< of a reduction
  int rank = 0;                    ///< of this rank in the team; like all that is the team's, set once
  int size = 1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const Listed* listed = nullptr;  ///< null if both are in one piece
  std::uint64_t place = 0;         ///< index among the calls of the slot

  // The team's.
  std::span<CommSlot* const> slots;    ///< of every rank, this one included
  std::span<Segment* const> segments;  ///< of every rank, this one included
  Segment* segment = nullptr;          ///< this rank's
  CommSlot* slot = nullptr;            ///< this rank's
  std::uint64_t* done = nullptr;       ///< number of the last call with an owner that this rank is done with
  std::uint64_t* pieces = nullptr;     ///< staged so far in this slot, in all calls: the same on all ranks
  Published* published = nullptr;
  int cores = 1;     ///< that the ranks share
  bool sums = true;  ///< this rank may sum for all: see Arrival::may_sum()

  // Set for a long call, once all ranks have announced it.
  /// Every rank's input and output in this address space; empty where they are private.
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::uint64_t number = 0;           ///< number among the long calls of this slot, from 1
  int owner = -1;                     ///< the rank that does this call for all ranks; -1: each does its slice
  SliceCounters* counters = nullptr;  ///< of this call; null if each rank has a core
  /// Number of shares of which a running rank takes the next; 0: each rank does its slice.
  std::uint64_t shares = 0;

  // Memory of the algorithm, so that it need not allocate any.
  std::vector<const void*> from;  ///< of a short call: all contributions
  std::vector<void*> to;
  std::vector<std::max_align_t> frame;  ///< see Task
  void* frame_memory(std::size_t bytes) {
    frame.resize(std::max(frame.size(), (bytes + sizeof frame[0] - 1) / sizeof frame[0]));
    return frame.data();
  }

  /// Size of a piece that passes through the segments. Two pieces, with the private memory that they come
  /// from or go to, should stay in a second-level cache; those of all ranks together in a last-level cache.
  /// If ranks share cores, each piece takes a context switch to every rank, so pieces are longer. They are
  /// not so long if each rank touches the pages of all ranks.
  std::uint64_t piece_bytes() const {
    constexpr std::uint64_t kLongest = kStageBytes / 2;
    const std::uint64_t in_caches = 2 * kStageBytes / static_cast<std::uint64_t>(std::max(size, 4));
    if (counters == nullptr) return in_caches;
    if (shape->form.kind == schedule::SharedMemoryForm::Kind::reduce_for_all) return kLongest;
    return std::clamp<std::uint64_t>(in_caches, 64 << 10, kLongest);
  }
  /// Numbers the next `count` pieces of the slot; returns the number of the first one.
  std::uint64_t number_pieces(std::uint64_t count) { return std::exchange(*pieces, *pieces + count); }
  /// A rank that sees the count also sees everything that this rank wrote before. If ranks share cores, no
  /// rank waits for these counters: they tell which rank is late.
  void publish(CommSlot::Counter& counter, std::uint64_t value) {
    counter.value.store(value, std::memory_order_release);
    if (counters == nullptr) published->changed = true;
  }
  void set_at_work(bool is_at_work) {
    slot->at_work.value.store(is_at_work ? place + 1 : 0, std::memory_order_relaxed);
  }
  /// This rank has done its part. Returns the wait for all ranks, after which there is nothing more to do.
  Wait finish() {
    return finish(&CommSlot::done, number, slots.front()->shares[place % kDescriptors], place);
  }
  /// This rank has reduced its slice of a piece. Returns the wait for all ranks.
  Wait finish_piece(std::uint64_t piece) {
    return finish(&CommSlot::reduced, piece + 1, counters_of_piece(piece), piece);
  }
  /// For ranks that share cores. This rank has put its contribution to the piece down; `piece` is its number
  /// among all pieces of the slot. `cut_into`: number of shares in which the piece is then summed; 0: each
  /// rank reads the piece. Returns the wait for all ranks or, if this rank does not sum, for the sums.
  Wait arrive(std::uint64_t piece, std::uint64_t cut_into);
  /// Takes the next of `count` shares of a call or piece that is open, if one is left. Wakes a rank that may
  /// take another one, as long as cores may idle.
  std::optional<std::uint64_t> take_share(SliceCounters& of, std::uint64_t place_or_piece,
                                          std::uint64_t count) const;
  /// This rank has done a share. If it is the last one, the waiting ranks go on.
  void finish_share(SliceCounters& of, std::uint64_t place_or_piece, std::uint64_t count) {
    if (of.finish_one(place_or_piece, count)) wake(of, false);
  }
  /// Wakes all ranks that wait for these counters, now or, if they sleep more deeply, by Team::tell().
  /// `to_sum`: lets the ranks that sum begin with what this rank, which does not sum, has just opened.
  void wake(SliceCounters& of, bool to_sum);
  SliceCounters& counters_of_piece(std::uint64_t piece) const {
    return slots.front()->piece_shares[piece % std::size(slot->piece_shares)];
  }
  /// Whether a rank has closed its segment after a failure: what this rank has read since in other ranks'
  /// memory may be wrong.
  bool is_given_up() const;
  /// To be called before this rank writes in other ranks' memory, which it may do until the end of the poll,
  /// or of a long piece. Returns false if one of them has failed and takes its memory back. Here `writing` is
  /// stored before `closed` is loaded, in Team::abandon() `closed` is stored before `writing` is loaded: at
  /// least one side sees the other's store.
  bool begin_writing();
  /// Counts this rank in `counter` and, if ranks share cores, in `of`.
  Wait finish(CommSlot::Counter CommSlot::*counter, std::uint64_t value, SliceCounters& of,
              std::uint64_t place_or_piece);
  /// Copies data to this rank's segment, for one other rank to read or, with `to_all`, for each of them.
  void show(std::byte* stage, const std::byte* data, std::size_t bytes, bool to_all) const;
  /// Copies data from a segment. `alone`: no other rank reads it.
  void take(std::byte* to, std::byte* stage, std::size_t bytes, bool alone) const;
  /// Where rank r's input goes in this rank's output, if it is copied.
  std::byte* place_of(int r) const {
    if (listed != nullptr && !listed->output.empty()) return listed->output[static_cast<std::size_t>(r)];
    return output + shape->shown[static_cast<std::size_t>(r)].begin * shape->element_bytes;
  }
  /// This rank's contribution to rank r's part, if each rank reduces its part alone.
  const std::byte* input_of(int r) const {
    if (is_input_listed()) return listed->input[static_cast<std::size_t>(r)];
    return input + shape->parts[static_cast<std::size_t>(r)].begin * shape->element_bytes;
  }
  bool is_input_listed() const { return listed != nullptr && !listed->input.empty(); }
  /// This rank's part of the data, if it reduces that part alone.
  const schedule::DataRange& own_part() const { return shape->parts[static_cast<std::size_t>(rank)]; }
};

/// Size of a piece of a copy or a reduction. Between two pieces the driver can poll the links.
inline constexpr std::size_t kPieceBytes = 1 << 20;

/// Size of a block that stays in the nearest cache between two passes over it.
inline constexpr std::size_t kBlockBytes = 16 << 10;

/// The algorithm for a long call.
Task run(Call& call);

Task copy(Call& call);
Task reduce_own(Call& call);
Task reduce_for_all(Call& call);

/// Finishes a call whose data has come with the descriptors: `call.from[r]` is the contribution of rank r.
void finish_short(Call& call);

/// Number of shares into which so much data is cut: enough to keep some cores busy, each worth taking.
inline std::uint64_t share_count(std::uint64_t bytes) {
  constexpr std::uint64_t kShareBytes = 8 << 10;
  return std::clamp<std::uint64_t>(bytes / kShareBytes, 1, 16);
}

}  // namespace kolo::engine::shared_memory
