// Cross entropy of scores whose vocabulary is divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kolo/communicator.hpp"

namespace kolo {

/// What vocabulary_parallel_cross_entropy() counts and returns. Defaults are those of libtorch.
struct VocabularyParallelCrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< places with this target do not count
  bool mean =
      true;  ///< return the mean over the places that count, NaN if there is none; else a loss a place
};

/// What torch::nn::functional::cross_entropy() makes of all ranks' scores, without gathering them. See M.
/// Shoeybi et al. 2019, section 3. It sends three numbers a place, and in backward nothing. `scores` [...,
/// this rank's slice of the vocabulary], as a ColumnParallelLinear leaves them; `vocabulary` elements of all
/// slices; `targets` int64 [...], replicated. Returns a number, or with mean = false [...], replicated (0
/// where the target is ignored). Computes 16-bit scores in float32. Collective in forward only. Throws
/// InvalidArgumentError for shapes that do not fit and targets out of the vocabulary; kolo's errors.
at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& scores, const at::Tensor& targets,
                                             std::int64_t vocabulary, const Communicator& group,
                                             const VocabularyParallelCrossEntropyOptions& options = {});

}  // namespace kolo
