// Linear layers whose weights are divided among the ranks of a group.
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
#include "kolo/train/tensor_parallel.hpp"

namespace kolo {

/// What a ColumnParallelLinear computes, and how its outputs are divided. The same on all ranks.
struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;   ///< length of the last dimension of the input; 1 or more
  std::int64_t out_features = 0;  ///< outputs of all ranks together; at least `unit` for each rank
  bool bias = true;               ///< whether a bias is added to the outputs
  /// Every rank gets all outputs. Otherwise each rank gets its slice, as a RowParallelLinear takes it. With a
  /// `unit` above 1 the ranks must then divide the units evenly.
  bool gather_output = false;
  bool sequence = false;  ///< the input is this rank's slice of the sequence, not replicated
  /// Number of consecutive outputs that one rank holds together, as those of an attention head. Divides
  /// out_features.
  std::int64_t unit = 1;
  /// Draws the initial values; undefined: libtorch's default generator. All ranks give one in the same state.
  at::Generator generator = {};
};

/// A linear layer, y = x A^T + b, whose outputs are divided among the ranks. Each rank has a slice of the
/// outputs: rows of A and elements of b (M. Shoeybi et al.: "Megatron-LM: Training Multi-Billion Parameter
/// Language Models Using Model Parallelism", 2019, section 3). Forward sends nothing, unless it gathers;
/// backward sums the gradient of `x` over the ranks. Slices need not be equal. A pair of layers, of which
/// only the second one communicates in forward:
///
///     kolo::ColumnParallelLinear up(
///         kolo::ColumnParallelLinearOptions{.in_features = 512, .out_features = 2048}, group);
///     kolo::RowParallelLinear down(
///         kolo::RowParallelLinearOptions{.in_features = 2048, .out_features = 512}, group);
///     const at::Tensor y = down(at::gelu(up(x)));
///
/// Construction as of all parallel modules: see TensorParallelModule.
class ColumnParallelLinearImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ColumnParallelLinearImpl(const ColumnParallelLinearOptions& options, Communicator group);

  /// `x` [..., in_features], replicated (with `sequence` a slice); returns [..., this rank's out_features],
  /// or with gather_output [..., out_features]. Collective, also in backward. `whole_sequence`: see
  /// TensorParallelModule. Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);
  /// The slices among this module's own parameters; local.
  std::vector<SlicedParameter> sliced_parameters() const override;
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  ColumnParallelLinearOptions options;
  Slice outputs;      ///< the outputs that this rank computes
  at::Tensor weight;  ///< [this rank's out_features, in_features]
  at::Tensor bias;    ///< [this rank's out_features]; undefined without bias

 private:
  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ColumnParallelLinear);

/// What a RowParallelLinear computes, and how its inputs are divided. The same on all ranks.
struct RowParallelLinearOptions {
  std::int64_t in_features = 0;   ///< inputs of all ranks together; at least `unit` for each rank
  std::int64_t out_features = 0;  ///< length of the last dimension of the output; 1 or more
  bool bias = true;               ///< whether a bias, which all ranks hold, is added to the sum
  /// `x` is a slice, as ColumnParallelLinear leaves it. Otherwise it is replicated, and each rank takes its
  /// slice; with a `unit` above 1 the ranks must then divide the units evenly.
  bool input_is_slice = true;
  bool sequence = false;  ///< the output is this rank's slice of the sequence, not replicated
  /// Number of consecutive inputs that one rank holds together, as those of an attention head. Divides
  /// in_features.
  std::int64_t unit = 1;
  /// Draws the initial values; undefined: libtorch's default generator. All ranks give one in the same state.
  at::Generator generator = {};
};

/// A linear layer, y = x A^T + b, whose inputs are divided among the ranks. Each rank has a slice of the
/// inputs: columns of A (M. Shoeybi et al. 2019, section
/// 3). Forward sums y over the ranks, which all add the replicated b; backward sends nothing. Slices need not
/// be equal. See ColumnParallelLinearImpl for an example. Construction as of all parallel modules: see
/// TensorParallelModule.
class RowParallelLinearImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  RowParallelLinearImpl(const RowParallelLinearOptions& options, Communicator group);

  /// `x` [..., this rank's in_features], or with input_is_slice = false [..., in_features]; returns
  /// [..., out_features], replicated (with `sequence` a slice). Collective. Throws InvalidArgumentError for
  /// another last dimension.
  at::Tensor forward(const at::Tensor& x);
  /// The slices among this module's own parameters; local.
  std::vector<SlicedParameter> sliced_parameters() const override;
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  RowParallelLinearOptions options;
  Slice inputs;       ///< the inputs that this rank reads
  at::Tensor weight;  ///< [out_features, this rank's in_features]
  at::Tensor bias;    ///< [out_features], replicated; undefined without bias

 private:
  Communicator group_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace kolo
