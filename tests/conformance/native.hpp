// Calls that run in shared memory, and memory for them.
#pragma once

#include <memory>

#include "kolo/kolo.hpp"

namespace kolo::test {

// By name: on a busy machine kolo may measure that messages are faster.
inline const CallOptions kDirect{.algorithm = "direct"};
inline const CallOptions kBarrier{.algorithm = "dissemination"};

using Memory = std::shared_ptr<std::byte[]>;

inline Memory private_memory(std::size_t bytes, std::size_t offset = 0) {
  const Memory owner(new std::byte[offset + bytes]);
  return {owner, owner.get() + offset};
}

inline Memory region(std::size_t bytes, std::size_t offset = 0) {
  const auto owner = std::make_shared<SharedMemory>(offset + bytes);
  return {owner, owner->data() + offset};
}

inline Memory arena_block(std::size_t bytes, std::size_t offset = 0) {
  const auto owner = SharedArena::instance().allocate(offset + bytes);
  return {owner, owner.get() + offset};
}

}  // namespace kolo::test
