// An optimizer in an archive, whole: libtorch saves its state, but loads it without its options.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

namespace kolo::train {

/// State and options of each parameter group.
void save_whole(const torch::optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive);
/// The inverse, into an optimizer of the same type with the same parameters in the same groups.
void load_whole(torch::optim::Optimizer& optimizer, torch::serialize::InputArchive& archive);

}  // namespace kolo::train
