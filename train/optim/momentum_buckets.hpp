// MomentumBuckets: the momenta of 1-bit Adam, packed to be sent.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/adam.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/tensor.hpp"
#include "optim/one_bit_agreement.hpp"

namespace kolo::train {

/// A parameter with what an optimizer has for it.
struct AdamParameter {
  at::Tensor tensor;
  torch::optim::AdamParamState* state;
  const torch::optim::AdamOptions* options;
};

/// Working memory: an optimizer's state is as it was until apply().
class MomentumBuckets {
 public:
  MomentumBuckets(const AveragedParameters& parameters, std::uint64_t bucket_bytes);

  /// Throws InvalidArgumentError where the hook's state is that of other parameters.
  void check(const GradientHook& hook) const;
  /// Packs what this rank makes of the momenta with its gradients. `parameters` as at construction.
  void fill(std::span<const AdamParameter> parameters);
  /// Collective: puts the averages over all ranks in their place. Returns whether they are finite, which is
  /// the same on all ranks.
  bool average(GradientHook& hook, Communicator& communicator);
  /// Makes them the optimizer's momenta, and moves the parameters.
  void apply(std::span<const AdamParameter> parameters) const;

 private:
  std::vector<FlatTensors> buckets_;
  std::vector<at::Tensor> momenta_;  ///< of each parameter: a view of its bucket
};

}  // namespace kolo::train
