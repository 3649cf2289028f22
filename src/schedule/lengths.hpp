// ChunkLengths: how many elements the chunks of a schedule hold, once the counts of a call are known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo {

/// Elements of each chunk of a rank's input and output, as the table of BufferName divides them, also where
/// the rank has no such memory. A value.
struct ChunkLengths {
  std::vector<std::uint64_t> input;
  std::vector<std::uint64_t> output;

  /// Elements in each of the slots of scratch that are all alike: the largest chunk.
  std::uint64_t slot() const;
  /// Elements in each slot of the schedule's scratch.
  std::vector<std::uint64_t> slots(const Schedule& schedule) const;
  /// Elements in a range that is in bounds; of scratch, in the chunks that it is like, around the end.
  std::uint64_t of(const ChunkRange& range) const;
};

/// Splits `count` elements into `parts` as evenly as can be: the first count % parts get one more. None for 0
/// parts. With a `block` they are split in blocks of so many, of which the last one may be shorter.
std::vector<std::uint64_t> even_parts(std::uint64_t count, std::uint64_t parts, std::uint64_t block = 1);

/// How many part counts describe a call of this collective: N where each rank has a part, 1 for send_recv,
/// none for barrier, else the schedule's `chunks`.
std::uint32_t part_count(const Schedule& schedule);

/// `part_counts`: part_count() entries, as check_schedules() takes them.
ChunkLengths chunk_lengths(const Schedule& schedule, std::span<const std::uint64_t> part_counts);

}  // namespace kolo
