#include "libtorch/random_state.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace kolo::train {
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

RandomRecord::RandomRecord(RandomStates& states) : states_(states), outer_(innermost) {
  note(generator_or_default({}));
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

}  // namespace kolo::train
