#include "libtorch/autocast_state.hpp"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "kolo/train/precision.hpp"

namespace kolo {
namespace train {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
AutocastState AutocastState::current() {
  return {at::autocast::is_autocast_enabled(at::kCPU), at::autocast::get_autocast_dtype(at::kCPU),
          at::autocast::is_autocast_cache_enabled()};
}

void AutocastState::apply() const {
  at::autocast::set_autocast_enabled(at::kCPU, is_enabled);
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
  at::autocast::set_autocast_cache_enabled(has_cache);
}
#else
AutocastState AutocastState::current() {
  return {at::autocast::is_cpu_enabled(), at::autocast::get_autocast_cpu_dtype(),
          at::autocast::is_autocast_cache_enabled()};
}

void AutocastState::apply() const {
  at::autocast::set_cpu_enabled(is_enabled);
  at::autocast::set_autocast_cpu_dtype(dtype);
  at::autocast::set_autocast_cache_enabled(has_cache);
}
#endif

}  // namespace train

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
