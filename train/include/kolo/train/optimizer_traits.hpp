// What a gradient hook has to know of an optimizer of libtorch.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include "kolo/train/gradient_hook.hpp"

namespace kolo {

/// Of SGD, Adam, AdamW, RMSprop, Adagrad, L-BFGS, LARS and LAMB; another type is "unknown", without traits. A
/// trait of one parameter group is one of the optimizer.
OptimizerTraits traits_of(const torch::optim::Optimizer& optimizer);

}  // namespace kolo
