// Which tokens go to which experts, and in what order.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

struct Dispatch {
  /// Choices that no expert dropped, by expert, and within an expert first choices first: each is
  /// token * chosen + number of the choice, int64 [choices].
  at::Tensor choices;
  std::vector<std::int64_t> sent;       ///< of these, those to each rank
  std::vector<std::int64_t> received;   ///< from each rank
  std::vector<std::int64_t> of_expert;  ///< received by each of this rank's experts, from all ranks
  /// int64 [received]: places of what was received, by expert. From a rank it comes by expert.
  at::Tensor by_expert;

  std::vector<std::int64_t> loads;  ///< choices of each expert, of all ranks
  std::vector<std::int64_t> first;  ///< those of them that are first choices
  std::int64_t tokens = 0;          ///< of all ranks
  std::int64_t dropped = 0;
};

/// Collective: `chosen` int64 [this rank's tokens, 1 or 2], numbers of experts. An expert takes
/// `capacity_factor` times an equal part of all choices, rounded up; 0: all.
Dispatch plan_dispatch(const at::Tensor& chosen, std::int64_t experts, double capacity_factor,
                       Communicator& group);

}  // namespace kolo::train
