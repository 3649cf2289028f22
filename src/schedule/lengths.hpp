// ChunkLengths: the number of elements in each chunk of a schedule, for given counts of a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// Elements of each chunk of input and output, divided as the table of BufferName says, even if the rank does
/// not have that memory. A value.
struct ChunkLengths {
  std::vector<std::uint64_t> input;
  std::vector<std::uint64_t> output;

  /// Elements in each slot of scratch that is not laid out like a chunk: those of the largest chunk.
  std::uint64_t slot() const;
  /// Elements in each slot of the schedule's scratch.
  std::vector<std::uint64_t> slots(const Schedule& schedule) const;
  /// Elements in a range, which must be in bounds. For scratch: in the chunks that the range is like, around
  /// the end.
  std::uint64_t of(const ChunkRange& range) const;
};

/// Splits `count` elements into `parts` as evenly as possible: the first count % parts parts get one more.
/// Empty for 0 parts. With a `block`, splits whole blocks of that many elements; only the last block may be
/// shorter.
std::vector<std::uint64_t> even_parts(std::uint64_t count, std::uint64_t parts, std::uint64_t block = 1);

/// The number of part counts that describe a call of this collective: N if each rank has a part, 1 for
/// send_recv, 0 for barrier, else the schedule's `chunks`.
std::uint32_t part_count(const Schedule& schedule);

/// `part_counts`: part_count() entries, as for check_schedules().
ChunkLengths chunk_lengths(const Schedule& schedule, std::span<const std::uint64_t> part_counts);

}  // namespace kolo::schedule
