// Call: one collective as a native algorithm sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/native/task.hpp"
#include "kernels/kernels.hpp"
#include "schedule/schedule.hpp"

namespace kolo::native {

/// What all calls of one shape have in common. The same on all ranks. A value.
struct Shape {
  Collective collective = Collective::barrier;
  int root = 0;
  std::size_t element_bytes = 1;
  /// Where each rank's part begins, in elements, and behind them where the last one ends; {0, count} where
  /// the data has no parts.
  std::vector<std::uint64_t> bounds = {0, 0};

  std::uint64_t count() const { return bounds.back(); }
  std::uint64_t bytes() const { return count() * element_bytes; }
  std::uint64_t part_begin(int rank) const { return bounds[static_cast<std::size_t>(rank)]; }
  std::uint64_t part_count(int rank) const {
    return bounds[static_cast<std::size_t>(rank) + 1] - bounds[static_cast<std::size_t>(rank)];
  }
  /// What a rank lays open for the others to read, in bytes.
  std::uint64_t shown_bytes(int rank) const;
  std::uint64_t most_shown_bytes(int size) const;
};

/// One call under way on one rank. The algorithms read and advance it; see group.hpp for who else does.
struct Call {
  const Shape* shape = nullptr;
  kernels::FoldFn fold = nullptr;  ///< of a reduction
  int rank = 0;
  int size = 1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  // Of a long call, from when everybody has announced it.
  std::span<Lane* const> lanes;    ///< of every rank, one's own included
  std::span<Board* const> boards;  ///< likewise
  Board* board = nullptr;          ///< one's own
  Lane* lane = nullptr;            ///< one's own
  /// Every rank's input and output in this address space; empty where they are private.
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::uint64_t number = 0;         ///< of the long calls of this lane, from 1
  int turn = -1;                    ///< the rank that does this call for all; -1: each does its share
  Shares* shares = nullptr;         ///< whoever runs does the next share; null: each rank does its own
  std::uint64_t place = 0;          ///< among the calls of the lane
  std::uint64_t* done = nullptr;    ///< of calls with a turn: the last one of which this rank did its part
  std::uint64_t* pieces = nullptr;  ///< staged so far in this lane, over all calls: the same on all ranks

  // For the algorithm, so that it need not allocate any.
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<std::max_align_t> frame;  ///< see Task
  void* frame_memory(std::size_t bytes) {
    frame.resize(std::max(frame.size(), (bytes + sizeof frame[0] - 1) / sizeof frame[0]));
    return frame.data();
  }

  bool changed = false;  ///< something was published that others may sleep for

  /// Of a piece on its way over the boards: two of them, and what goes with them in the ranks' own memory,
  /// should stay in a second-level cache, and all ranks' together in a last-level one.
  std::uint64_t piece_bytes() const {
    return 2 * kStageBytes / static_cast<std::uint64_t>(std::max(size, 4));
  }
  /// Everything that this rank wrote before is seen by whoever sees the count.
  void publish(Lane::Counter& counter, std::uint64_t value) {
    counter.value.store(value, std::memory_order_release);
    changed = true;
  }
  /// Whether a rank has failed: what this one has read of the others' memory since may be something else.
  bool is_given_up() const;
  /// From here to the end of the look, or of a long piece, this rank writes in other ranks' memory; or
  /// returns false: one of them has failed and takes its memory back. With Group::abandon() the store of one
  /// side and the load of the other cannot both miss.
  bool begin_writing();
  /// Puts on this rank's board what one other rank, or each of them, is going to read.
  void show(std::byte* stage, const std::byte* data, std::size_t bytes, bool to_all) const;
  /// Copies what another rank has put down. `alone`: for nobody but this one.
  void take(std::byte* to, std::byte* stage, std::size_t bytes, bool alone) const;
};

/// Where a piece of a copy or a reduction ends, so that the driver gets to look at the links now and then.
inline constexpr std::size_t kPieceBytes = 1 << 20;

/// What stays in the nearest cache while something more is done with it.
inline constexpr std::size_t kBlockBytes = 16 << 10;

/// The algorithm for a long call.
Task run(Call& call);

Task all_reduce(Call& call);
Task reduce_scatter(Call& call);
Task all_gather(Call& call);
Task broadcast(Call& call);

/// A call whose data has come along with the notes: `shown[r]` is what rank r lays open.
void finish_short(const Call& call, std::span<const void* const> shown);

}  // namespace kolo::native
