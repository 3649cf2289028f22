#include "kolo/train/gradient_hook.hpp"

namespace kolo {

GradientHook::~GradientHook() = default;

}  // namespace kolo
