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

struct ParallelTransformerLayerOptions {
  std::int64_t width = 0;   ///< features; heads divide it
  std::int64_t heads = 0;   ///< as many as ranks or more
  std::int64_t hidden = 0;  ///< features of the MLP; 0: 4 * width
  bool causal = false;
  Activation activation = Activation::gelu;
  double dropout = 0;            ///< of what is added to the residual, in training
  double attention_dropout = 0;  ///< of attention's weights, in training
  bool sequence = false;         ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};  ///< of the initial values and of dropout; none: libtorch's default one
};

/// x + attention(norm(x)), then the same with an MLP (R. Xiong et al.: "On Layer Normalization in the
/// Transformer Architecture", ICML 2020), by a ParallelAttention and a ParallelMLP.
///
/// For outputs of B bytes and N ranks, rings send 4 (N - 1) / N B in forward and as much in backward: two
/// all_reduces each, or with `sequence` two pairs of all_gather and reduce_scatter. With `sequence` (V.
/// Korthikanti et al. 2022, section 4.2.2) norms, dropout and residuals work on slices of the sequence, so
/// that each rank keeps 1/N of their activations; norms and biases send 6 * width elements more in backward.
/// Construction as of all parallel modules: see parallel_linear.hpp.
class ParallelTransformerLayerImpl : public torch::nn::Module {
 public:
  ParallelTransformerLayerImpl(const ParallelTransformerLayerOptions& options, const Communicator& group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  ParallelTransformerLayerOptions options;
  ParallelLayerNorm attention_norm;
  ParallelAttention attention;
  ParallelLayerNorm mlp_norm;
  ParallelMLP mlp;

 private:
  at::Tensor drop(const at::Tensor& x, std::int64_t whole_sequence) const;

  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelTransformerLayer);

}  // namespace kolo
