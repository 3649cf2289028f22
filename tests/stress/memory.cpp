#include "stress/memory.hpp"

#include <algorithm>

namespace kolo::stress {
namespace {

constexpr std::size_t kMostBlocks = 10;

}  // namespace

std::int32_t* Memory::take(std::uint64_t count) {
  const auto kind = static_cast<Kind>(random_.below(kinds_));
  const auto fits = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return !block.taken && block.kind == kind && block.count >= count;
  });
  if (fits != blocks_.end() && random_.chance(90)) {
    fits->taken = true;
    return fits->numbers();
  }
  blocks_.push_back(make(kind, count));
  return blocks_.back().numbers();
}

Memory::Block Memory::make(Kind kind, std::uint64_t count) {
  const std::size_t bytes = count * sizeof(std::int32_t);
  Block block{kind, count, true, {}};
  if (kind == Kind::shared) {
    auto memory = std::make_shared<SharedMemory>(bytes);
    block.data = std::shared_ptr<std::byte[]>(memory, memory->data());
  } else if (kind == Kind::arena) {
    block.data = arena_.allocate(bytes);
  } else {
    block.data = std::make_shared<std::byte[]>(bytes);
  }
  return block;
}

void Memory::free_all() {
  for (Block& block : blocks_) block.taken = false;
  if (blocks_.size() > kMostBlocks)
    blocks_.erase(blocks_.begin(), blocks_.end() - static_cast<std::ptrdiff_t>(kMostBlocks));
}

void Memory::paint() {
  pattern_ = static_cast<std::int32_t>(random_.next());
  for (const Block& block : blocks_) std::fill_n(block.numbers(), block.count, pattern_);
}

bool Memory::is_as_painted() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return std::all_of(block.numbers(), block.numbers() + block.count,
                       [&](std::int32_t number) { return number == pattern_; });
  });
}

}  // namespace kolo::stress
