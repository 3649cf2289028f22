// What a Batch has to be.
#pragma once

#include <cstdint>

#include "kolo/train/data.hpp"

namespace kolo::train {

/// How many samples it has. Throws InvalidArgumentError unless its tensors are as many along their first
/// dimension.
std::int64_t samples_of(const Batch& batch);

}  // namespace kolo::train
