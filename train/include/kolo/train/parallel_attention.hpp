// ParallelAttention: self-attention whose heads are divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_linear.hpp"
#include "kolo/train/tensor_parallel.hpp"

namespace kolo {

struct ParallelAttentionOptions {
  std::int64_t width = 0;  ///< features of inputs and outputs; heads divide it
  std::int64_t heads = 0;  ///< as many as ranks or more
  bool causal = false;     ///< a place sees itself and what comes before
  bool bias = true;
  double dropout = 0;            ///< of the weights, in training: see split_dropout()
  bool sequence = false;         ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};  ///< of the initial values and of dropout; none: libtorch's default one
};

/// Multi-head self-attention (A. Vaswani et al.: "Attention Is All You Need", NeurIPS 2017, section 3.2.2) by
/// heads (M. Shoeybi et al. 2019, section 3, figure 3b): each rank has the queries, keys and values of some
/// heads, and the columns of the output's weight that read them. Forward sends what one RowParallelLinear
/// does, backward what one ColumnParallelLinear does. Construction as of all parallel modules: see
/// parallel_linear.hpp.
class ParallelAttentionImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  ParallelAttentionImpl(const ParallelAttentionOptions& options, Communicator group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);
  std::vector<SlicedParameter> sliced_parameters() const override;
  void pretty_print(std::ostream& stream) const override;

  ParallelAttentionOptions options;
  Slice heads;            ///< this rank's
  at::Tensor in_weight;   ///< [3, features of this rank's heads, width]: of queries, keys, values
  at::Tensor in_bias;     ///< [3, features of this rank's heads]; undefined without bias
  RowParallelLinear out;  ///< from the heads to the outputs

 private:
  Slice features() const;
  at::Tensor drop(const at::Tensor& weights) const;

  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelAttention);

}  // namespace kolo
