#include "engine/memory_pool.hpp"

#include <algorithm>
#include <utility>

namespace kolo {
namespace {

constexpr std::size_t kMostBlocks = 32;
constexpr std::size_t kSmall = 64 << 10;

/// A small request must not take a large block: a large one would then have to allocate another.
bool fits(std::size_t block, std::size_t bytes) {
  return block >= bytes && block <= std::max(4 * bytes, kSmall);
}

}  // namespace

MemoryPool::Block MemoryPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  // The last one that came back is the likeliest to be in a cache.
  const auto found = std::find_if(blocks_.rbegin(), blocks_.rend(),
                                  [&](const Block& block) { return fits(block.bytes, bytes); });
  if (found == blocks_.rend()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  Block block = std::move(*found);
  blocks_.erase(std::next(found).base());
  return block;
}

void MemoryPool::give_back(Block block) {
  if (block.bytes == 0) return;
  if (blocks_.size() == kMostBlocks) blocks_.erase(blocks_.begin());
  blocks_.push_back(std::move(block));
}

}  // namespace kolo
