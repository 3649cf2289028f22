// Sets learning rates and momenta of an optimizer of libtorch, as a schedule says.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include <vector>

namespace kolo {

/// Gives group i of parameters `rate` times factors[i]; without factors all groups get `rate`. For all
/// optimizers of libtorch and of kolo. Under overlap_forward:
///
///     model.change_optimizers([&](torch::optim::Optimizer& of_bucket) {
///       kolo::set_learning_rate(of_bucket, rate(step));
///     });
///
/// Throws InvalidArgumentError, before any rate changes, for a rate or factor that is negative or not finite,
/// and where there is not one factor for each group.
void set_learning_rate(torch::optim::Optimizer& optimizer, double rate,
                       const std::vector<double>& factors = {});

/// The momentum of SGD, RMSprop and LARS, the first of the betas of Adam, AdamW, LAMB and what is derived
/// from them, in all groups of parameters. Throws InvalidArgumentError, before any momentum changes, unless
/// `momentum` is between 0 and 1, both excluded, and for optimizers that have none, as Adagrad, or were made
/// without (SGD with momentum 0).
void set_momentum(torch::optim::Optimizer& optimizer, double momentum);

}  // namespace kolo
