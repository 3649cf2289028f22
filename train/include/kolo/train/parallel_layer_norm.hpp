// ParallelLayerNorm: layer normalization between layers that are divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>

#include "kolo/communicator.hpp"
#include "kolo/train/tensor_parallel.hpp"

namespace kolo {

/// The shape of a ParallelLayerNorm. The same on all ranks.
struct ParallelLayerNormOptions {
  std::int64_t features = 0;  ///< length of the last dimension, over which each place is normalized
  double eps = 1e-5;          ///< added to the variance before its root; 0 or more, by default as in libtorch
  bool sequence = false;      ///< inputs are slices of the sequence
};

/// torch::nn::LayerNorm over the last dimension, with replicated weight and bias. With `sequence` each rank
/// normalizes its slice of the sequence (V. Korthikanti et al.: "Reducing Activation Recomputation in Large
/// Transformer Models", 2022, section 4.2.2), and backward sums the gradients of weight and bias over the
/// ranks, by one all_reduce of 2 * features elements. Construction as of all parallel modules: see
/// TensorParallelModule.
class ParallelLayerNormImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelLayerNormImpl(const ParallelLayerNormOptions& options, Communicator group);

  /// `x` [..., features]; returns the same shape. Sends nothing; with `sequence` backward is collective.
  /// Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x);
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  ParallelLayerNormOptions options;
  at::Tensor weight;  ///< factors, [features], the same on all ranks; at first ones
  at::Tensor bias;    ///< terms, [features], the same on all ranks; at first zeros

 private:
  Communicator group_;
};
TORCH_MODULE(ParallelLayerNorm);

}  // namespace kolo
