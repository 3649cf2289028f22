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

/// A function of each element between two linear layers.
enum class Activation {
  relu,  ///< max(0, x)
  gelu,  ///< x Phi(x), with Phi of the normal distribution (D. Hendrycks, K. Gimpel 2016); not the tanh form
};

/// The shape of a ParallelMLP. The same on all ranks.
struct ParallelMLPOptions {
  std::int64_t width = 0;   ///< features of inputs and outputs
  std::int64_t hidden = 0;  ///< features in between, which are divided; as many as ranks or more
  Activation activation = Activation::gelu;  ///< applied to the hidden features
  bool bias = true;                          ///< whether both layers have a bias
  bool sequence = false;                     ///< inputs and outputs are slices of the sequence
  /// Draws the initial values; undefined: libtorch's default generator. All ranks give one in the same state.
  at::Generator generator = {};
};

/// The two linear layers of a transformer, divided among the ranks: a ColumnParallelLinear, an activation of
/// each element, a RowParallelLinear. From M. Shoeybi et al. 2019, section 3, figure 3a: forward sends what
/// one sum of the outputs takes, and so does backward. Construction as of all parallel modules: see
/// TensorParallelModule.
class ParallelMLPImpl : public torch::nn::Module {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  ParallelMLPImpl(const ParallelMLPOptions& options, const Communicator& group);

  /// `x` [..., width], replicated (with `sequence` a slice); returns the same shape. Collective.
  /// `whole_sequence`: see TensorParallelModule. Throws InvalidArgumentError for another last dimension.
  at::Tensor forward(const at::Tensor& x, std::int64_t whole_sequence = 0);

  /// As given to the constructor; a change has no effect on the parameters.
  ParallelMLPOptions options;
  ColumnParallelLinear up;  ///< from `width` to this rank's hidden features
  RowParallelLinear down;   ///< from this rank's hidden features to `width`

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::int64_t{0})})  // as a layer of a Sequential
};
TORCH_MODULE(ParallelMLP);

}  // namespace kolo
