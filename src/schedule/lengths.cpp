#include "schedule/lengths.hpp"

#include <algorithm>
#include <numeric>

namespace kolo::schedule {

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
  if (range.count == 0) return 0;
  const std::size_t first = is_scratch ? range.like_begin : range.begin;
  const std::size_t last = first + range.count;
  const std::size_t around = last - std::min(last, lengths.size());
  const auto begin = lengths.begin();
  const auto straight_end = begin + static_cast<std::ptrdiff_t>(last - around);
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first), straight_end, std::uint64_t{0}) +
         std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(around), std::uint64_t{0});
}

std::vector<std::uint64_t> ChunkLengths::slots(const Schedule& schedule) const {
  std::vector<std::uint64_t> result(alike_slots(schedule), slot());
  for (const ChunkRange& like : schedule.scratch_like) {
    const auto& lengths = like.buffer == BufferName::input ? input : output;
    for (std::uint32_t i = 0; i < like.count; ++i) {
      result.push_back(lengths[(like.begin + i) % lengths.size()]);
    }
  }
  return result;
}

std::vector<std::uint64_t> even_parts(std::uint64_t count, std::uint64_t parts, std::uint64_t block) {
  if (parts == 0) return {};  // barriers have no data
  const std::uint64_t blocks = count / block + (count % block != 0 ? 1 : 0);
  std::vector<std::uint64_t> result(parts, blocks / parts * block);
  for (std::uint64_t i = 0; i < blocks % parts; ++i) result[i] += block;
  if (count > 0)
    result[std::min(blocks, parts) - 1] -= blocks * block - count;  // of the last part that is not empty
  return result;
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

}  // namespace kolo::schedule
