// Autocast on the CPU, whose functions have other names from libtorch 2.4 on.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/ScalarType.h>

namespace kolo::train {

/// What libtorch keeps of autocast for each thread.
struct AutocastState {
  bool is_enabled = false;
  at::ScalarType dtype = at::kBFloat16;
  bool has_cache = true;  ///< of weights that were cast

  /// This thread's.
  static AutocastState current();
  /// Makes it this thread's.
  void apply() const;
};

/// While it lives, this thread's autocast is another one.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state) { state.apply(); }
  ~AutocastScope() { before_.apply(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const AutocastState before_ = AutocastState::current();
};

}  // namespace kolo::train
