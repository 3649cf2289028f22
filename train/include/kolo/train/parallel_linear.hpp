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

// M. Shoeybi et al.: "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
// 2019, section 3. What follows holds for all modules that are divided among a group.
//
// Constructors are collective. Initial values are made whole on each rank, from a generator in the same state
// on all ranks (torch::manual_seed() with one seed), and each rank keeps its slice: so the ranks together
// hold what one process makes of that seed. A wrong option throws InvalidArgument, ranks that differ in
// options or seed MismatchError, on all ranks, naming the odd one. forward() and backward() are collective:
// the ranks use their modules in the same order. Errors in between are kolo's. Not thread-safe.
//
// With `sequence` tensors between the layers are slices along dimension 1, [samples, time / ranks, features]:
// see gather_sequence(). `whole_sequence` is the time of all slices; 0: all are as long as this rank's.

struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// Every rank gets all outputs; else this rank's slice of them, for a RowParallelLinear.
  bool gather_output = false;
  bool sequence = false;         ///< inputs are slices of the sequence
  std::int64_t unit = 1;         ///< so many outputs stay together, as those of a head
  at::Generator generator = {};  ///< of the initial values; none: libtorch's default one
};

/// y = x A^T + b, where each rank has a slice of the outputs: rows of A and elements of b. Forward sends
/// nothing, unless it gathers; backward sums the gradient of `x` over the ranks. Slices need not be equal.
class ColumnParallelLinearImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  ColumnParallelLinearImpl(const ColumnParallelLinearOptions& options, Communicator group);

  /// `x` [..., in_features], replicated (with `sequence` a slice); returns [..., this rank's out_features].
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);
  std::vector<SlicedParameter> sliced_parameters() const override;
  void pretty_print(std::ostream& stream) const override;

  ColumnParallelLinearOptions options;
  Slice outputs;      ///< this rank's
  at::Tensor weight;  ///< [this rank's out_features, in_features]
  at::Tensor bias;    ///< [this rank's out_features]; undefined without bias

 private:
  Communicator group_;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// `x` is a slice, as ColumnParallelLinear leaves it; else it is replicated, and each rank takes its slice.
  bool input_is_slice = true;
  bool sequence = false;  ///< outputs are slices of the sequence
  std::int64_t unit = 1;  ///< so many inputs stay together
  at::Generator generator = {};
};

/// y = x A^T + b, where each rank has a slice of the inputs: columns of A. Forward sums y over the ranks,
/// which all add the replicated b; backward sends nothing. Slices need not be equal.
class RowParallelLinearImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  RowParallelLinearImpl(const RowParallelLinearOptions& options, Communicator group);

  /// `x` [..., this rank's in_features]; returns [..., out_features], replicated (with `sequence` a slice).
  at::Tensor forward(const at::Tensor& x);
  std::vector<SlicedParameter> sliced_parameters() const override;
  void pretty_print(std::ostream& stream) const override;

  RowParallelLinearOptions options;
  Slice inputs;       ///< this rank's
  at::Tensor weight;  ///< [out_features, this rank's in_features]
  at::Tensor bias;    ///< [out_features], replicated; undefined without bias

 private:
  Communicator group_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace kolo
