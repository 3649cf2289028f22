// Which gradients travel together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/dtype.hpp"

namespace kolo::train {

struct ParameterSize {
  std::uint64_t bytes;
  DType dtype;
};

/// Fills buckets with parameters in `order` (that in which their gradients are expected), one open bucket per
/// dtype; a bucket is closed once it holds `first_bytes` (the first of its dtype) or `bytes` (all others) or
/// more. Returns the parameters of each bucket, the buckets in the order in which they will be complete.
/// `order` must hold each index of `parameters` once. Pure: ranks that agree on the arguments agree on the
/// result.
///
/// The first bucket is small so that communication starts early in backward, as in PyTorch (Li et al.,
/// "PyTorch Distributed", VLDB 2020).
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ParameterSize> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::uint64_t first_bytes, std::uint64_t bytes);

/// The same with given borders: neighbours in `order` up to each of `ends`, one bucket for each dtype among
/// them.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ParameterSize> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::span<const std::size_t> ends);

}  // namespace kolo::train
