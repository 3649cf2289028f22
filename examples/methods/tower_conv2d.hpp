// TowerConv2d: convolutions whose maps are divided into towers, one on each rank of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/expanding_array.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_layers.hpp"

namespace kolo::methods {

/// Which maps a rank's part of a layer sees.
enum class TowerInput {
  own_tower,   ///< those of its own tower: nothing is sent
  all_towers,  ///< those of all towers, gathered
  replicated,  ///< the input is whole on all ranks, as images are
};

/// The shape of a TowerConv2d. The same on all ranks. Two numbers are height and width; one number is both.
struct TowerConv2dOptions {
  /// Input maps of all towers together; a multiple of the ranks, unless the input is replicated.
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;             ///< output maps of all towers together; a multiple of the ranks
  torch::ExpandingArray<2> kernel_size = 1;  ///< places of the input that an output sees; 1 or more
  torch::ExpandingArray<2> stride = 1;       ///< places between two outputs; 1 or more
  torch::ExpandingArray<2> padding = 0;      ///< zeros on each border of the input; 0 or more
  bool bias = true;                          ///< whether each output map has a bias
  TowerInput input = TowerInput::own_tower;  ///< which maps this rank's outputs see
  /// Draws the initial values; undefined: libtorch's default generator. All ranks give one in the same state.
  at::Generator generator = {};
};

/// A convolution whose maps are divided into towers, one on each rank. A network of these is divided over N
/// ranks as the first deep one was over two GPUs (A. Krizhevsky, I. Sutskever, G. Hinton: "ImageNet
/// Classification with Deep Convolutional Neural Networks", NIPS 2012, sections 3.2 and 3.5): each rank has
/// 1/N of the maps of every layer, and ranks communicate in chosen layers only. A layer that sees its own
/// tower is torch::nn::Conv2d with groups = N; one that sees all maps is a whole Conv2d. Both have their
/// weights divided along the first dimension. A linear layer behind the towers is a ColumnParallelLinear
/// after gather_sequence(maps, 1, group).
///
/// With own_tower it sends nothing; with all_towers an all_gather of the input in forward and a
/// reduce_scatter of its gradient in backward; with replicated an all_reduce of the input's gradient, if it
/// wants one. Construction as of all parallel modules: see TensorParallelModule.
class TowerConv2dImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  TowerConv2dImpl(const TowerConv2dOptions& options, Communicator group);

  /// `x` [samples, this rank's in_channels, height, width], or all channels where the input is replicated;
  /// returns [samples, this rank's out_channels, ...]. Throws InvalidArgumentError for another shape.
  at::Tensor forward(const at::Tensor& x);
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  TowerConv2dOptions options;
  Slice maps;         ///< the output maps that this rank computes
  at::Tensor weight;  ///< [this rank's out_channels, channels that it sees, height, width]
  at::Tensor bias;    ///< [this rank's out_channels]; undefined without bias

 private:
  Communicator group_;
};
TORCH_MODULE(TowerConv2d);

}  // namespace kolo::methods
