#include "kolo/train/precision.hpp"

#include <ATen/autocast_mode.h>

#include "libtorch/autocast_state.hpp"

namespace kolo {

struct Autocast::State : train::AutocastState {};

Autocast::Autocast(bool is_enabled)
    : before_(std::make_unique<State>(State{train::AutocastState::current()})) {
  at::autocast::increment_nesting();
  train::AutocastState{is_enabled, at::kBFloat16, before_->has_cache}.apply();
}

Autocast::~Autocast() {
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  before_->apply();
}

bool has_bfloat16_products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace kolo
