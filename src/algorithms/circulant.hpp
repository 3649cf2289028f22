// The circulant graph with halving skips: the two halves that all_reduce, reduce_scatter and all_gather
// share.
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

inline constexpr std::string_view kCirculantSource =
    "J. L. Traff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024, algorithms 1 and 2";

/// Works in scratch. Its slots have the N chunks in order from this rank's own, around the end: slot i
/// belongs to the i-th rank after this one. So each message is one contiguous piece of memory. The skips are
/// N/2, N/4, ..., 1, each half of the one before, rounded up.
class Circulant {
 public:
  /// `chunks`: the buffer that has N chunks.
  Circulant(schedule::ScheduleBuilder& builder, const ScheduleSpec& spec, schedule::BufferName chunks);

  /// Slots [begin, end).
  schedule::ChunkRange slots(int begin, int end) const;
  /// Copies all chunks of input to scratch.
  void load();
  /// ceil(log2 N) rounds. A rank that holds sums for the s' ranks from itself on sends the sums for the
  /// farther half of them to the rank s'/2 (rounded up) after it. The complete sum of its own chunk ends in
  /// `to`.
  void reduce_scatter(schedule::ChunkRange to);
  /// The reverse: starts with slot 0, ends with all chunks in scratch.
  void all_gather();
  /// Copies all chunks from scratch to output.
  void store();

 private:
  schedule::ScheduleBuilder& builder_;
  const ScheduleSpec& spec_;
  schedule::BufferName chunks_;
  std::vector<int> skips_;  // N first
  Turns turns_;
};

}  // namespace kolo::algorithms
