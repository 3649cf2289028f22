// How many samples a Batch has.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kolo/error.hpp"
#include "kolo/train/data.hpp"

namespace kolo::train {

/// Throws InvalidArgumentError unless there are tensors, as long as each other along their first dimension.
inline std::int64_t samples_of(const Batch& batch) {
  if (batch.empty()) throw InvalidArgumentError("a batch has no tensors", {});
  const auto is_alike = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch[0].size(0);
  };
  if (!std::ranges::all_of(batch, is_alike))
    throw InvalidArgumentError("the tensors of a batch differ in their first dimension, the samples", {});
  return batch[0].size(0);
}

}  // namespace kolo::train
