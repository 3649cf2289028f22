#include "schedule/lengths.hpp"

#include <algorithm>
#include <numeric>

namespace kolo {

std::uint64_t ChunkLengths::slot() const {
  std::uint64_t largest = 0;
  for (const std::uint64_t length : input) largest = std::max(largest, length);
  for (const std::uint64_t length : output) largest = std::max(largest, length);
  return largest;
}

std::uint64_t ChunkLengths::of(const ChunkRange& range) const {
  const bool is_scratch = range.buffer == BufferName::scratch;
  const BufferName buffer = is_scratch ? range.like_buffer : range.buffer;
  const auto& lengths = buffer == BufferName::input ? input : output;
  const auto first = lengths.begin() + (is_scratch ? range.like_begin : range.begin);
  return range.count == 0 ? 0 : std::accumulate(first, first + range.count, std::uint64_t{0});
}

std::uint32_t part_count(const Schedule& schedule) {
  const Division division = division_of(schedule);
  return std::max(division.input, division.output);
}

ChunkLengths chunk_lengths(const Schedule& schedule, std::span<const std::uint64_t> part_counts) {
  const Division division = division_of(schedule);
  const auto rank = static_cast<std::size_t>(schedule.rank);
  ChunkLengths lengths{{part_counts.begin(), part_counts.end()}, {part_counts.begin(), part_counts.end()}};
  if (schedule.collective == Collective::all_to_all) {
    lengths.output.assign(division.output, part_counts[rank]);
  } else {
    if (division.input < part_counts.size()) lengths.input = {part_counts[rank]};
    if (division.output < part_counts.size()) lengths.output = {part_counts[rank]};
  }
  return lengths;
}

}  // namespace kolo
