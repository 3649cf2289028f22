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

struct ParallelLayerNormOptions {
  std::int64_t features = 0;
  double eps = 1e-5;
  bool sequence = false;  ///< inputs are slices of the sequence
};

/// torch::nn::LayerNorm over the last dimension, with replicated weight and bias. With `sequence` each rank
/// normalizes its slice of the sequence (V. Korthikanti et al.: "Reducing Activation Recomputation in Large
/// Transformer Models", 2022, section 4.2.2), and backward sums the gradients of weight and bias over the
/// ranks, by one all_reduce of 2 * features elements. Construction as of all parallel modules: see
/// parallel_linear.hpp.
class ParallelLayerNormImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  ParallelLayerNormImpl(const ParallelLayerNormOptions& options, Communicator group);

  at::Tensor forward(const at::Tensor& x);
  void pretty_print(std::ostream& stream) const override;

  ParallelLayerNormOptions options;
  at::Tensor weight, bias;  ///< [features]

 private:
  Communicator group_;
};
TORCH_MODULE(ParallelLayerNorm);

}  // namespace kolo
