#include "base/memory_pool.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kolo {
namespace {

TEST(MemoryPool, GivesOutAgainWhatCameBackLast) {
  MemoryPool pool;
  MemoryPool::Block one = pool.take(1 << 20), other = pool.take(1 << 20);
  const std::byte* last = other.memory.get();
  pool.give_back(std::move(one));
  pool.give_back(std::move(other));
  EXPECT_EQ(pool.take(900 << 10).memory.get(), last);
}

TEST(MemoryPool, KeepsLongMemoryForLongOperations) {
  MemoryPool pool;
  MemoryPool::Block long_one = pool.take(100 << 20);
  const std::byte* const memory = long_one.memory.get();
  pool.give_back(std::move(long_one));
  const MemoryPool::Block short_one = pool.take(100);
  EXPECT_EQ(short_one.bytes, 100u);
  EXPECT_EQ(pool.take(90 << 20).memory.get(), memory);
}

TEST(MemoryPool, KeepsNoMoreThanAFewBlocks) {
  MemoryPool pool;
  std::vector<MemoryPool::Block> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.take(1 << 20));
  for (int i = 0; i < 100; ++i) pool.give_back(std::move(blocks[static_cast<std::size_t>(i)]));
  int kept = 0;
  while (pool.take((1 << 20) - 1).bytes == 1 << 20) ++kept;
  EXPECT_GE(kept, 8);
  EXPECT_LE(kept, 50);
}

TEST(MemoryPool, NothingTakesNothing) {
  MemoryPool pool;
  EXPECT_EQ(pool.take(0).memory, nullptr);
  pool.give_back({});
}

}  // namespace
}  // namespace kolo
