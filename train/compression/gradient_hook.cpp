#include "kolo/train/hooks.hpp"

#include "kolo/error.hpp"

namespace kolo {

GradientHook::~GradientHook() = default;

void GradientHook::set_state(const HookState& state) {
  if (state.empty()) return;
  throw InvalidArgumentError(
      describe() + " keeps nothing, and the state holds '" + state.begin()->first + "'", {});
}

}  // namespace kolo
