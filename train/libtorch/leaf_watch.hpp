// LeafWatch: learns that a backward() has given some leaf of autograd's graph a gradient.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/record_function.h>

#include <cstdint>
#include <thread>

namespace kolo::train {

/// While it watches, each node of a backward() in its thread costs a callback. Not thread-safe.
class LeafWatch {
 public:
  LeafWatch() = default;
  ~LeafWatch() { stop(); }
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

  /// Watches this thread from now on.
  void start();
  void stop() noexcept;
  /// Whether a leaf has got a gradient since start(), in the same thread.
  bool has_seen() const noexcept;

 private:
  std::uint64_t seen_before_ = 0;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::thread::id thread_;
};

}  // namespace kolo::train
