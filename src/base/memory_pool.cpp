#include "base/memory_pool.hpp"

#include <algorithm>
#include <utility>

namespace kolo {
namespace {

constexpr std::size_t kSmall = 64 << 10;
constexpr std::size_t kMostSmall = 256;
constexpr std::size_t kMostLarge = 32;

/// A small request must not take a large block: a large one would then have to allocate another.
bool fits(std::size_t block, std::size_t bytes) {
  return block >= bytes && block <= std::max(4 * bytes, kSmall);
}

/// The last block that came back is the likeliest to be in a cache.
MemoryPool::Block take_from(std::vector<MemoryPool::Block>& blocks, std::size_t bytes) {
  const auto found = std::find_if(blocks.rbegin(), blocks.rend(),
                                  [&](const auto& block) { return fits(block.bytes, bytes); });
  if (found == blocks.rend()) return {};
  MemoryPool::Block block = std::move(*found);
  blocks.erase(std::next(found).base());
  return block;
}

}  // namespace

MemoryPool::Block MemoryPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  Block block = take_from(small_, bytes);
  if (block.bytes == 0) block = take_from(large_, bytes);
  if (block.bytes == 0) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  return block;
}

void MemoryPool::give_back(Block block) {
  if (block.bytes == 0) return;
  const bool is_small = block.bytes <= kSmall;
  std::vector<Block>& blocks = is_small ? small_ : large_;
  if (blocks.size() == (is_small ? kMostSmall : kMostLarge)) blocks.erase(blocks.begin());
  blocks.push_back(std::move(block));
}

}  // namespace kolo
