// The clipped objective of proximal policy optimization.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "cartpole/rollout.hpp"

namespace cartpole {

struct ObjectiveOptions {
  double clip = 0.2;     ///< how far a step may move the probability of what was done, as a share of it
  double value = 0.5;    ///< weight of the values' squared errors
  double entropy = 0.0;  ///< weight of the policy's entropy
};

/// The gradient of the loss, a mean over the samples of these indices, by the network's outputs for them [n,
/// 3] (J. Schulman et al.: "Proximal Policy Optimization Algorithms", 2017, equations 7 and 9). Advantages
/// are brought to a mean of 0 and a variance of 1 first.
at::Tensor objective_gradient(const at::Tensor& outputs, const Samples& samples,
                              std::span<const std::int64_t> indices, const ObjectiveOptions& options);

}  // namespace cartpole
