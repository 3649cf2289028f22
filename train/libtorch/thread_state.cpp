#include "libtorch/thread_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "kolo/train/precision.hpp"

namespace kolo {
namespace train {

// The functions of autocast have other names from libtorch 2.4 on.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
AutocastState AutocastState::current() {
  return {at::autocast::is_autocast_enabled(at::kCPU), at::autocast::is_autocast_enabled(at::kCUDA),
          at::autocast::get_autocast_dtype(at::kCPU), at::autocast::get_autocast_dtype(at::kCUDA),
          at::autocast::is_autocast_cache_enabled()};
}

void AutocastState::apply() const {
  at::autocast::set_autocast_enabled(at::kCPU, is_enabled);
  at::autocast::set_autocast_enabled(at::kCUDA, is_enabled_on_gpus);
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
  at::autocast::set_autocast_dtype(at::kCUDA, dtype_on_gpus);
  at::autocast::set_autocast_cache_enabled(has_cache);
}
#else
AutocastState AutocastState::current() {
  return {at::autocast::is_cpu_enabled(), at::autocast::is_enabled(), at::autocast::get_autocast_cpu_dtype(),
          at::autocast::get_autocast_gpu_dtype(), at::autocast::is_autocast_cache_enabled()};
}

void AutocastState::apply() const {
  at::autocast::set_cpu_enabled(is_enabled);
  at::autocast::set_enabled(is_enabled_on_gpus);
  at::autocast::set_autocast_cpu_dtype(dtype);
  at::autocast::set_autocast_gpu_dtype(dtype_on_gpus);
  at::autocast::set_autocast_cache_enabled(has_cache);
}
#endif

namespace {

thread_local RandomRecord* innermost = nullptr;

}  // namespace

RandomState RandomState::of(at::Generator generator) {
  generator = generator_or_default(generator);
  const std::lock_guard lock(generator.mutex());
  return {generator, generator.get_state()};
}

RandomState RandomState::seeded(std::uint64_t seed) {
  return {generator_or_default({}), of(at::make_generator<at::CPUGeneratorImpl>(seed)).state};
}

void RandomState::apply() const {
  at::Generator to = generator;
  const std::lock_guard lock(to.mutex());
  to.set_state(state);
}

RandomScope::RandomScope(const RandomStates& states) {
  for (const RandomState& state : states) before_.push_back(RandomState::of(state.generator));
  for (const RandomState& state : states) state.apply();
}

RandomScope::~RandomScope() {
  for (const RandomState& state : before_) state.apply();
}

RandomRecord::RandomRecord(RandomStates& states, at::TensorList inputs) : states_(states), outer_(innermost) {
  note(generator_or_default({}));
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.is_cuda()) note(at::globalContext().defaultGenerator(input.device()));
  }
  innermost = this;
}

RandomRecord::~RandomRecord() {
  innermost = outer_;
}

void RandomRecord::note(const at::Generator& generator) {
  const auto is_it = [&](const RandomState& state) { return state.generator == generator; };
  if (std::ranges::none_of(states_, is_it)) states_.push_back(RandomState::of(generator));
}

at::Generator generator_or_default(const at::Generator& generator) {
  return generator.defined() ? generator : at::detail::getDefaultCPUGenerator();
}

std::uint64_t draw(const at::Generator& generator) {
  at::Generator from = generator_or_default(generator);
  for (RandomRecord* record = innermost; record != nullptr; record = record->outer_) record->note(from);
  auto* const numbers = at::check_generator<at::CPUGeneratorImpl>(from);
  const std::lock_guard lock(numbers->mutex_);
  return numbers->random64();
}

}  // namespace train

struct Autocast::State : train::AutocastState {};

Autocast::Autocast(bool is_enabled, at::ScalarType dtype_on_gpus)
    : before_(std::make_unique<State>(State{train::AutocastState::current()})) {
  at::autocast::increment_nesting();
  train::AutocastState{is_enabled, is_enabled, at::kBFloat16, dtype_on_gpus, before_->has_cache}.apply();
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
