// Calls that run in shared memory, and memory for them.
#pragma once

#include <sched.h>

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

/// Limits the thread, and threads that it starts, to this number of cores while it lives.
class FewCores {
 public:
  explicit FewCores(int count) {
    sched_getaffinity(0, sizeof before_, &before_);
    CPU_ZERO(&few_);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&few_) < count; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &few_);
    }
    sched_setaffinity(0, sizeof few_, &few_);
  }
  ~FewCores() { sched_setaffinity(0, sizeof before_, &before_); }
  FewCores(const FewCores&) = delete;
  FewCores& operator=(const FewCores&) = delete;

  const cpu_set_t& set() const { return few_; }

 private:
  cpu_set_t before_;
  cpu_set_t few_;
};

}  // namespace kolo::test
