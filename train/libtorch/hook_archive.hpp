// What a gradient hook keeps, in an archive.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/serialize/archive.h>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

void save_hook(const GradientHook& hook, torch::serialize::OutputArchive& archive);
/// The inverse. Throws InvalidArgumentError where it is the state of another hook.
void load_hook(GradientHook& hook, torch::serialize::InputArchive& archive);

}  // namespace kolo::train
