// MixtureOfExperts: a layer of many networks, of which each token uses one or two, divided among ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_layers.hpp"

namespace kolo {

/// The shape of a MixtureOfExperts. The same on all ranks.
struct MixtureOfExpertsOptions {
  std::int64_t width = 0;    ///< features of inputs and outputs
  std::int64_t hidden = 0;   ///< hidden features of an expert, which is an MLP of two layers
  std::int64_t experts = 0;  ///< experts of all ranks together; as many as ranks or more
  int chosen = 1;            ///< experts that a token uses: 1 or 2
  /// An expert takes so many times its equal part of the choices, rounded up, and drops those beyond it.
  /// 0: it takes all tokens that choose it. Finite.
  double capacity_factor = 0;
  Activation activation = Activation::relu;  ///< of an expert's hidden features
  at::Generator generator = {};              ///< draws the initial values: see TensorParallelModule
};

/// A layer of many networks, divided among the ranks, of which each token uses one or two. A gate sends each
/// token to the experts that it gives the highest probability, on whatever rank they are, and adds up what
/// they return (N. Shazeer et al.: "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts
/// Layer", ICLR 2017, section 2, without noise; D. Lepikhin et al.: "GShard", 2020, section 3, for two
/// experts; W. Fedus, B. Zoph, N. Shazeer: "Switch Transformers", JMLR 2022, section 2, for one, the capacity
/// and the loss). One expert's output counts by its probability, two experts' by their parts of the sum of
/// both.
///
/// Each rank has its own tokens, as many as it likes, perhaps none, and slice_of() the experts. The ranks
/// together compute what one process makes of all tokens in the order of the ranks. Forward is an all_gather
/// of the numbers of choices, and two all_to_all, in which a rank sends and receives as many tokens as chose
/// an expert elsewhere; backward two all_to_all, and an all_reduce of the gate's gradient. The loss is the
/// sum of what the ranks compute of their tokens (see group_functions.hpp): a rank's loss that is the mean
/// over its tokens is divided by the number of ranks before backward().
///
/// First choices come before second ones, and within them tokens in their order: those that find an expert
/// full are dropped by it, so that only the residual around the layer carries them. The gate computes in
/// float32, or float64.
class MixtureOfExpertsImpl : public ParallelLayer {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options, Communicator group);

  /// `x` [..., width], this rank's tokens; returns the same shape. Collective, also in backward. Throws
  /// InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x);

  /// How uneven the last forward() loaded the experts, over all ranks' tokens, the same on all ranks:
  /// experts * sum over experts of (part of the first choices) * (mean probability), which is 1 where loads
  /// are even (Fedus et al., equation 4). Added to the loss on every rank, times 0.01 say, it counts once.
  at::Tensor balance_loss() const { return balance_loss_; }
  /// How many choices fell on each expert in the last forward(), dropped ones too, over all ranks' tokens.
  const std::vector<std::int64_t>& loads() const noexcept { return loads_; }
  /// How many choices full experts dropped in the last forward(), over all ranks' tokens.
  std::int64_t dropped() const noexcept { return dropped_; }

  MixtureOfExpertsOptions options;  ///< as given to the constructor
  Slice experts;                    ///< the experts that this rank holds
  at::Tensor gate;                  ///< weights of the scores, [experts of all ranks, width], replicated
  at::Tensor up;                    ///< first layers of this rank's experts, [experts, hidden, width]
  at::Tensor up_bias;               ///< [experts, hidden]
  at::Tensor down;                  ///< second layers of this rank's experts, [experts, width, hidden]
  at::Tensor down_bias;             ///< [experts, width]

 private:
  at::Tensor run_experts(const at::Tensor& tokens, const std::vector<std::int64_t>& of_expert) const;

  at::Tensor balance_loss_;
  std::vector<std::int64_t> loads_;
  std::int64_t dropped_ = 0;
};
TORCH_MODULE(MixtureOfExperts);

}  // namespace kolo
