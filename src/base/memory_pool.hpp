// MemoryPool: memory that operations need while they run, and messages that wait for their receives.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace kolo {

/// Keeps blocks for reuse: an operation like an earlier one allocates nothing. The numbers of small and of
/// large blocks kept are limited, however many operations ran at once. Used by one thread at a time.
class MemoryPool {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  /// At least `bytes` bytes with any values. Throws std::bad_alloc.
  Block take(std::size_t bytes);
  void give_back(Block block);

 private:
  std::vector<Block> small_, large_;  // in the order in which they came back
};

}  // namespace kolo
