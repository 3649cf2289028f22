#include "transport/shm/free_ranges.hpp"

#include <iterator>

namespace kolo::transport::shm {

std::optional<std::size_t> FreeRanges::take(std::size_t bytes, std::size_t alignment, std::size_t phase) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, length] = *range;
    const std::size_t skipped = (phase + alignment - begin % alignment) % alignment;
    if (length < skipped || length - skipped < bytes) continue;
    const std::size_t offset = begin + skipped;
    const std::size_t behind = length - skipped - bytes;
    if (skipped != 0) {
      range->second = skipped;
    } else {
      free_.erase(range);
    }
    if (behind != 0) free_[offset + bytes] = behind;
    return offset;
  }
  return std::nullopt;
}

void FreeRanges::give_back(std::size_t offset, std::size_t bytes) {
  auto range = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(range); next != free_.end() && offset + bytes == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  if (const auto before = std::prev(range); before->first + before->second == offset) {
    before->second += range->second;
    free_.erase(range);
  }
}

}  // namespace kolo::transport::shm
