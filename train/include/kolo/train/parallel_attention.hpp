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

/// The shape of a ParallelAttention. The same on all ranks.
struct ParallelAttentionOptions {
  std::int64_t width = 0;  ///< features of inputs and outputs; a multiple of `heads`
  std::int64_t heads = 0;  ///< heads of all ranks together; as many as ranks or more
  bool causal = false;     ///< each place attends to itself and to the places before it only
  bool bias = true;        ///< whether queries, keys, values and outputs have a bias
  double dropout =
      0;  ///< probability, from 0 to below 1, for attention's weights in training: split_dropout()
  bool sequence = false;  ///< inputs and outputs are slices of the sequence
  /// Draws the initial values and dropout; undefined: libtorch's default generator. All ranks give one in the
  /// same state.
  at::Generator generator = {};
};

/// Multi-head self-attention whose heads are divided among the ranks. The function (A. Vaswani et al.:
/// "Attention Is All You Need", NeurIPS 2017, section 3.2.2) is divided by heads (M. Shoeybi et al. 2019,
/// section 3, figure 3b): each rank has the queries, keys and values of some heads, and the columns of the
/// output's weight that read them. Forward sends what one RowParallelLinear does, backward what one
/// ColumnParallelLinear does. Construction as of all parallel modules: see TensorParallelModule.
class ParallelAttentionImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelAttentionImpl(const ParallelAttentionOptions& options, Communicator group);

  /// `x` [samples, time, width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);
  /// The slices among this module's own parameters; local.
  std::vector<SlicedParameter> sliced_parameters() const override;
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  ParallelAttentionOptions options;
  Slice heads;            ///< the heads that this rank computes
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
