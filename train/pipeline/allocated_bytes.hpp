// AllocatedBytes: memory of tensors that this thread allocates and gives back.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace kolo::train {

/// Counts while it lives, in the thread that makes it. Takes the place of libtorch's profiler meanwhile.
class AllocatedBytes {
 public:
  AllocatedBytes();

  /// Allocated and not given back; negative where memory from before has been given back.
  std::int64_t bytes() const noexcept;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace kolo::train
