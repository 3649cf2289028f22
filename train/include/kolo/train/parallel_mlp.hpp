// ParallelMLP: the two linear layers of a transformer, divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_linear.hpp"

namespace kolo {

enum class Activation { relu, gelu };

struct ParallelMLPOptions {
  std::int64_t width = 0;   ///< features of inputs and outputs
  std::int64_t hidden = 0;  ///< features in between, which are divided; as many as ranks or more
  Activation activation = Activation::gelu;
  bool bias = true;
  bool sequence = false;  ///< inputs and outputs are slices of the sequence
  at::Generator generator = {};
};

/// A ColumnParallelLinear, an activation of each element, a RowParallelLinear (M. Shoeybi et al. 2019,
/// section 3, figure 3a): forward sends what one sum of the outputs takes, and so does backward. Construction
/// as of all parallel modules: see parallel_linear.hpp.
class ParallelMLPImpl : public torch::nn::Module {
 public:
  ParallelMLPImpl(const ParallelMLPOptions& options, const Communicator& group);

  /// `x` [..., width], replicated (with `sequence` a slice); returns the same shape.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  ParallelMLPOptions options;
  ColumnParallelLinear up;
  RowParallelLinear down;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelMLP);

}  // namespace kolo
