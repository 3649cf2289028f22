#include "schedule/shared_memory_form.hpp"

#include <numeric>

namespace kolo::schedule {

std::vector<DataRange> ranges_of(Held held, std::span<const std::uint64_t> parts, int size, int root) {
  const std::uint64_t total = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  std::vector<DataRange> ranges(static_cast<std::size_t>(size));
  if (held == Held::all_at_root) ranges[static_cast<std::size_t>(root)] = {0, total};
  std::uint64_t begin = 0;
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    if (held == Held::all) ranges[rank] = {0, total};
    if (held != Held::own_part) continue;
    ranges[rank] = {begin, parts[rank]};
    begin += parts[rank];
  }
  return ranges;
}

}  // namespace kolo::schedule
