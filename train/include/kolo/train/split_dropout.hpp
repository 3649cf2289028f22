// Dropout of tensors that are divided among ranks: what one process would drop.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kolo/communicator.hpp"
#include "kolo/train/slice.hpp"

namespace kolo {

/// Where a rank's tensor lies in the whole of which it is a slice.
struct Split {
  std::int64_t dimension = 0;  ///< the dimension along which the whole is cut
  Slice slice = {};            ///< the elements along the dimension that this rank's tensor has
  std::int64_t whole = 0;      ///< elements along the dimension, of all ranks
};

/// Sets elements to zero with this probability and divides the kept elements by the rest of it. See N.
/// Srivastava et al.: "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014. Takes
/// one number from `generator` (none: libtorch's default one), and whether an element is dropped depends on
/// rank 0's number and on the element's place in the whole alone. So ranks of `group` that hold the same
/// elements, without `split`, drop the same ones, and slices drop what one process would drop of the whole,
/// whatever the number of ranks, and whatever a rank has drawn alone. Without a group, the generators must be
/// in one state. Groups with other data take another seed after their modules have been made: the first seed
/// and the number of the group, say.
///
/// All ranks of a group must call it alike, and in the same order: it broadcasts 8 bytes. Returns `x` itself,
/// and takes no number, if the probability is 0. Throws InvalidArgumentError unless it is from 0 to below 1,
/// and where the slice is not the tensor's.
at::Tensor split_dropout(const at::Tensor& x, double probability, const std::optional<Split>& split = {},
                         at::Generator generator = {}, Communicator group = {});

}  // namespace kolo
