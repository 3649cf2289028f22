// ParallelTransformerLayer: a layer of a transformer, divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_attention.hpp"
#include "kolo/train/parallel_layer_norm.hpp"
#include "kolo/train/parallel_mlp.hpp"

namespace kolo {

/// The shape of a ParallelTransformerLayer. The same on all ranks.
struct ParallelTransformerLayerOptions {
  std::int64_t width = 0;   ///< features of inputs and outputs; a multiple of `heads`
  std::int64_t heads = 0;   ///< attention heads of all ranks together; as many as ranks or more
  std::int64_t hidden = 0;  ///< hidden features of the MLP, as many as ranks or more; 0: 4 * width
  bool causal = false;      ///< each place attends to itself and to the places before it only
  Activation activation = Activation::gelu;  ///< of the MLP's hidden features
  double dropout = 0;  ///< probability, from 0 to below 1, for what is added to the residual in training
  double attention_dropout = 0;  ///< probability, from 0 to below 1, for attention's weights in training
  bool sequence = false;         ///< inputs and outputs are slices of the sequence
  /// Draws the initial values and dropout; undefined: libtorch's default generator. All ranks give one in the
  /// same state.
  at::Generator generator = {};
};

/// A layer of a transformer, divided among the ranks. It is x + attention(norm(x)), then the same with an MLP
/// (R. Xiong et al.: "On Layer Normalization in the
/// Transformer Architecture", ICML 2020), by a ParallelAttention and a ParallelMLP.
///
/// For outputs of B bytes and N ranks, rings send 4 (N - 1) / N B in forward and as much in backward: two
/// all_reduces each, or with `sequence` two pairs of all_gather and reduce_scatter. With `sequence` (V.
/// Korthikanti et al. 2022, section 4.2.2) norms, dropout and residuals work on slices of the sequence, so
/// that each rank keeps 1/N of their activations; norms and biases send 6 * width elements more in backward.
/// Construction as of all parallel modules: see TensorParallelModule.
///
///     kolo::ParallelTransformerLayer layer(
///         kolo::ParallelTransformerLayerOptions{.width = 512, .heads = 8, .causal = true}, grid.tensor());
///     x = layer(x);                                   // [samples, time, 512]
class ParallelTransformerLayerImpl : public torch::nn::Module {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelTransformerLayerImpl(const ParallelTransformerLayerOptions& options, const Communicator& group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  /// As given to the constructor, with `hidden` filled in; a change has no effect on the parameters.
  ParallelTransformerLayerOptions options;
  ParallelLayerNorm attention_norm;  ///< of what attention reads
  ParallelAttention attention;       ///< the first addition to the residual
  ParallelLayerNorm mlp_norm;        ///< of what the MLP reads
  ParallelMLP mlp;                   ///< the second addition to the residual

 private:
  at::Tensor drop(const at::Tensor& x, std::int64_t whole_sequence) const;

  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelTransformerLayer);

}  // namespace kolo
